"""Damaging files at random, repeatably, as a bad disk, mirror or attacker might."""

import io
import re
import struct
import zipfile
import zlib

import numpy as np

_BIG = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    60_000,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**63,
    2**64 - 1,
)
_WORDS = (
    b"-1", b"0", b"1e309", b"nan", b"-inf", b"99999999999", b"2147483648", b"1" * 400, b"", b"\xff",
    b"\0", b"0x7f", b"1.5", b"--", b"=", b"\"", b",", b"\n", b"[", b"null",
)  # fmt: skip
_PNG = b"\x89PNG\r\n\x1a\n"
_NUMBER = re.compile(rb"-?\d+(\.\d+)?")


def mutate(content: bytes, others: list[bytes], random: np.random.Generator) -> bytes:
    """Makes one to four random changes: flipped bits, cuts, blocks of other files, huge numbers."""
    changed = bytearray(content)
    for _ in range(random.integers(1, 5)):
        _CHANGES[random.integers(len(_CHANGES))](changed, others, random)
    return bytes(changed)


def mutate_behind_checksums(
    content: bytes, others: list[bytes], random: np.random.Generator
) -> bytes:
    """Changes one chunk of a PNG file or one member of a zip archive and corrects its checksum."""
    if content.startswith(_PNG):
        return _mutate_chunk(content, others, random)
    if zipfile.is_zipfile(io.BytesIO(content)):
        return _mutate_member(content, others, random)
    return mutate(content, others, random)


def _mutate_chunk(content: bytes, others: list[bytes], random: np.random.Generator) -> bytes:
    chunks, position = [], len(_PNG)
    while position < len(content):
        (length,) = struct.unpack_from(">I", content, position)
        chunks.append((content[position + 4 : position + 8], content[position + 8 :][:length]))
        position += length + 12
    chosen = random.integers(len(chunks))
    packed = bytearray(_PNG)
    for number, (kind, data) in enumerate(chunks):
        data = mutate(data, others, random) if number == chosen else data
        packed += struct.pack(">I", len(data)) + kind + data
        packed += struct.pack(">I", zlib.crc32(kind + data))
    return bytes(packed)


def _mutate_member(content: bytes, others: list[bytes], random: np.random.Generator) -> bytes:
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        names = old.namelist()
        chosen = names[random.integers(len(names))]
        for name in names:
            member = old.read(name)
            new.writestr(name, mutate(member, others, random) if name == chosen else member)
    return packed.getvalue()


def _flip_bits(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    for _ in range(random.integers(1, 9) if changed else 0):
        changed[random.integers(len(changed))] ^= 1 << random.integers(8)


def _cut(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    del changed[random.integers(len(changed) + 1) :]


def _leave_out(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    start, length = _block(len(changed), random)
    del changed[start : start + length]


def _splice(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    source = others[random.integers(len(others))]
    first, length = _block(len(source), random)
    start, replaced = _block(len(changed), random)
    end = start + (length if random.integers(2) else replaced)
    changed[start:end] = source[first : first + length]


def _write_big_number(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    kind = "bhiq"[random.integers(4)].upper()
    value = _BIG[random.integers(len(_BIG))] % 256 ** struct.calcsize(kind)
    # Headers stand at the start, so half of the numbers go there.
    limit = min(len(changed), 64) if random.integers(2) else len(changed)
    start = int(random.integers(limit + 1))
    packed = struct.pack("<>"[random.integers(2)] + kind, value)
    changed[start : start + len(packed)] = packed


def _replace_word(changed: bytearray, others: list[bytes], random: np.random.Generator) -> None:
    numbers = list(_NUMBER.finditer(changed[:4096]))
    start, end = numbers[random.integers(len(numbers))].span() if numbers else (0, 0)
    changed[start:end] = _WORDS[random.integers(len(_WORDS))]


def _block(length: int, random: np.random.Generator) -> tuple[int, int]:
    return int(random.integers(length + 1)), int(random.integers(1, max(2, min(length, 64))))


_CHANGES = (_flip_bits, _cut, _leave_out, _splice, _write_big_number, _replace_word)
