"""How many pixels an image file says it has, read from its header without decoding it."""

import re
import struct

_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset(range(0xD0, 0xD9)) | {0x00, 0x01}
_TIFF_WIDTH, _TIFF_HEIGHT, _TIFF_SHORT = 256, 257, 3


def claimed_pixels(encoded: bytes) -> int:
    """Width times height that a header states; 0 where it is cut short or of another format.

    Known are the formats that say much with few bytes: PNG, JPEG, WebP, BMP, GIF, TIFF, JPEG 2000
    and AVIF. The others that OpenCV reads need as many bytes as they have pixels.
    """
    try:
        if encoded.startswith(b"\x89PNG\r\n\x1a\n"):
            return max(_area(">II", encoded, 16), _missing_png_bytes(encoded))
        if encoded.startswith(b"\xff\xd8"):
            return _jpeg_pixels(encoded)
        if encoded.startswith(b"RIFF") and encoded[8:12] == b"WEBP":
            return _webp_pixels(encoded)
        if encoded.startswith(b"BM"):
            (header,) = struct.unpack_from("<I", encoded, 14)
            return _area("<HH" if header == 12 else "<ii", encoded, 18)
        if encoded.startswith(b"GIF8"):
            return _area("<HH", encoded, 6)
        if encoded.startswith((b"II", b"MM")):
            return _tiff_pixels(encoded)
        if encoded.startswith((b"\xff\x4f\xff\x51", b"\0\0\0\x0cjP")):
            return _largest_area(b"\xff\x4f\xff\x51", 8, encoded)
        if encoded[4:8] == b"ftyp":
            return _largest_area(b"ispe", 8, encoded)
    except (struct.error, OverflowError):  # beyond the end, or beyond any end
        pass
    return 0


def _area(layout: str, encoded: bytes, position: int) -> int:
    width, height = struct.unpack_from(layout, encoded, position)
    return abs(width * height)


def _largest_area(name: bytes, offset: int, encoded: bytes) -> int:
    """Of all the pairs of numbers that stand at an offset from a name."""
    found = re.finditer(re.escape(name), encoded)
    return max((_area(">II", encoded, match.start() + offset) for match in found), default=0)


def _missing_png_bytes(encoded: bytes) -> int:
    """Length of a chunk that the file ends in, which counts as pixels: OpenCV makes room for it."""
    position = 8
    while position + 4 <= len(encoded):
        (length,) = struct.unpack_from(">I", encoded, position)
        position += length + 12
        if position > len(encoded):
            return length
    return 0


def _jpeg_pixels(encoded: bytes) -> int:
    position = 2
    while (position := encoded.find(b"\xff", position)) >= 0:
        # Any number of 0xFF may stand before a marker.
        while encoded[position : position + 1] == b"\xff":
            position += 1
        marker, length = struct.unpack_from(">BH", encoded, position)
        if marker in _START_OF_FRAME:
            return _area(">HH", encoded, position + 4)
        position += 1 if marker in _WITHOUT_LENGTH else 1 + max(length, 2)
    return 0


def _webp_pixels(encoded: bytes) -> int:
    kind = encoded[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(encoded[place : place + 3], "little") for place in (24, 27))
        return (width + 1) * (height + 1)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", encoded, 21)
        return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
    width, height = struct.unpack_from("<HH", encoded, 26)
    return (width & 0x3FFF) * (height & 0x3FFF)


def _tiff_pixels(encoded: bytes) -> int:
    order = "<" if encoded.startswith(b"II") else ">"
    big = encoded[2:4] in (b"+\0", b"\0+")  # BigTIFF, whose offsets have eight bytes
    offset, counter, entry = ("Q", "Q", "HHQQ") if big else ("I", "H", "HHII")
    (start,) = struct.unpack_from(order + offset, encoded, 8 if big else 4)
    (count,) = struct.unpack_from(order + counter, encoded, start)
    start += struct.calcsize(order + counter)
    size = struct.calcsize(order + entry)
    sides = {_TIFF_WIDTH: 0, _TIFF_HEIGHT: 0}
    for position in range(start, min(start + count * size, len(encoded)), size):
        tag, kind, _, value = struct.unpack_from(order + entry, encoded, position)
        if tag in sides:
            value_at = position + size - struct.calcsize(order + offset)
            (short,) = struct.unpack_from(order + "H", encoded, value_at)
            sides[tag] = short if kind == _TIFF_SHORT else value
    return sides[_TIFF_WIDTH] * sides[_TIFF_HEIGHT]
