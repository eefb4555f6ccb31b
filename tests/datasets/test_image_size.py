import re
import struct
import zlib

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.readers import read_image
from doap_tf.readers.image_size import claimed_pixels

PROGRESSIVE = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
LOSSLESS = [cv2.IMWRITE_WEBP_QUALITY, 101]


def encoded(suffix, options=(), channels=3, height=48, width=40):
    image = np.random.default_rng(0).integers(0, 256, (height, width, channels), np.uint8)
    return cv2.imencode(suffix, image, list(options))[1].tobytes()


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".png", ()),
        (".jpg", ()),
        (".jpg", PROGRESSIVE),
        (".webp", ()),
        (".webp", LOSSLESS),
        (".bmp", ()),
        (".tif", ()),
        (".gif", ()),
        (".jp2", ()),
    ],
)
def test_headers_are_believed(suffix, options):
    content = encoded(suffix, options)
    assert claimed_pixels(content) == 48 * 40
    for cut in range(len(content)):
        assert claimed_pixels(content[:cut]) <= max(48 * 40, len(content))


def test_webp_with_alpha_and_big_tiff():
    assert claimed_pixels(encoded(".webp", channels=4)) == 48 * 40
    entries = struct.pack("<HHQQHHQQ", 256, 3, 1, 40, 257, 4, 1, 48)
    header = b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 2)
    assert claimed_pixels(header + entries) == 48 * 40


@pytest.mark.parametrize("content", [b"", b"P5 9 9 255\n", b"MM", b"\xff\xd8\xff", b"BM"])
def test_others_claim_nothing(content):
    assert claimed_pixels(content) == 0


def patched(content, pattern, offset, replacement):
    start = re.search(pattern, content, re.DOTALL).start() + offset
    return content[:start] + replacement + content[start + len(replacement) :]


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


SIDE = 30_000
BOMBS = {
    "png": b"\x89PNG\r\n\x1a\n"
    + png_chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0))
    + png_chunk(b"IDAT", zlib.compress(bytes(99))),
    "png chunk": patched(encoded(".png"), b"IDAT", -4, struct.pack(">I", 0x7F000000)),
    "jpg": patched(encoded(".jpg"), rb"\xff\xc0\0\x11", 5, struct.pack(">HH", SIDE, SIDE)),
    "progressive": patched(
        encoded(".jpg", PROGRESSIVE), rb"\xff\xc2\0\x11", 5, struct.pack(">HH", SIDE, SIDE)
    ),
    "bmp": patched(encoded(".bmp"), b"BM", 18, struct.pack("<ii", SIDE, -SIDE)),
    "webp": patched(encoded(".webp", LOSSLESS), b"VP8L", 9, b"\xff\xff\xff\x0f"),
    "gif": patched(encoded(".gif"), b"GIF8", 6, struct.pack("<HH", SIDE, SIDE)),
    "jp2": patched(encoded(".jp2"), rb"\xff\x4f\xff\x51", 8, struct.pack(">II", SIDE, SIDE)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_more_pixels_than_bytes_can_hold_are_refused(name, tmp_path):
    path = tmp_path / "image"
    path.write_bytes(BOMBS[name])
    with pytest.raises(InputError, match=r"image claims \d+ pixels, which \d+ bytes cannot hold"):
        read_image(path)


def test_flat_images_are_no_bombs(tmp_path):
    for side, suffix in ((4096, ".webp"), (5000, ".png"), (5000, ".jpg")):
        cv2.imwrite(str(tmp_path / f"flat{suffix}"), np.full((side, side), 7, np.uint8))
        assert read_image(tmp_path / f"flat{suffix}").shape == (side, side)
