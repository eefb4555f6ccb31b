import io
import struct
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

from doap_tf.errors import InputError
from doap_tf.readers.images import (
    as_colour,
    as_grey,
    exif_orientation,
    read_grey,
    read_image,
    read_rgb,
    read_upright,
)
from tests.matching.scene import views


def colours():
    return np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)


def test_grey_stays_and_colour_is_weighted_as_opencv_does():
    grey = views()[0]
    np.testing.assert_array_equal(as_grey(grey), grey)
    np.testing.assert_array_equal(as_grey(grey[..., None]), grey)
    bgr = colours()
    np.testing.assert_array_equal(as_grey(bgr), cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY))


def test_alpha_is_left_out():
    bgr = colours()
    alpha = np.random.default_rng(1).integers(0, 256, (12, 9, 1), np.uint8)
    bgra = np.concatenate([bgr, alpha], axis=2)
    np.testing.assert_array_equal(as_grey(bgra), as_grey(bgr))
    np.testing.assert_array_equal(as_colour(bgra), bgr)


@pytest.mark.parametrize("bits", [8, 10, 12, 16])
def test_deep_images_keep_their_leading_bits(bits):
    grey = views()[0]
    deep = grey.astype(np.uint16) << (bits - 8)
    np.testing.assert_array_equal(as_grey(deep), grey)
    np.testing.assert_array_equal(as_grey(deep.astype(">u2")), grey)


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test_floats_count_to_255_or_to_1(scale):
    grey = views()[0]
    np.testing.assert_array_equal(as_grey(grey.astype(np.float64) * scale), grey)


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((0, 5), np.uint8),
        np.zeros(5, np.uint8),
        np.zeros((5, 5, 2), np.uint8),
        np.zeros((2, 5, 5, 3), np.uint8),
        np.zeros((5, 5), np.int64),
        np.full((5, 5), np.nan),
        np.full((5, 5), 65535.0),
        None,
    ],
)
def test_what_is_not_an_image_is_refused(image):
    with pytest.raises(InputError, match="image"):
        as_grey(image)


def test_exif_orientation_is_followed_only_where_asked(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    path = tmp_path / "phone.jpg"
    Image.fromarray(views()[0]).save(path, exif=exif)
    assert read_image(path, upright=False).shape == (300, 400)
    assert read_image(path).shape == (400, 300)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_of_upright_images_are_found_in_their_files(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x010F], exif[0x0112] = "a maker", orientation
    path = tmp_path / "phone.jpg"
    Image.fromarray(views()[0]).save(path, exif=exif)
    upright, to_file = read_upright(path)
    stored = read_image(path, upright=False)
    np.testing.assert_array_equal(upright, read_image(path))
    y, x = np.indices(upright.shape)
    column, row = np.rint(to_file @ [x.ravel(), y.ravel(), np.ones(x.size)]).astype(int)
    np.testing.assert_array_equal(stored[row, column], upright.ravel())


@pytest.mark.parametrize("cut", [3, 12, 20, 24])
def test_damaged_exif_data_say_nothing(cut):
    exif = Image.Exif()
    exif[0x0112] = 6
    encoded = io.BytesIO()
    Image.new("L", (9, 8)).save(encoded, "jpeg", exif=exif)
    start = encoded.getvalue().index(b"Exif")
    assert exif_orientation(encoded.getvalue()) == 6
    assert exif_orientation(encoded.getvalue()[: start + cut]) == 1
    assert exif_orientation(b"\x89PNG") == 1


def test_depth_is_read_whole(tmp_path):
    deep = views()[0].astype(np.uint16) * 13
    cv2.imwrite(str(tmp_path / "deep.png"), deep)
    for upright in (True, False):
        np.testing.assert_array_equal(read_image(tmp_path / "deep.png", upright), deep)


def test_rgb_and_grey_have_their_order_and_depth(tmp_path):
    picture = np.zeros((9, 8, 3), np.uint8)
    picture[..., 2] = 200  # red, in OpenCV's order
    cv2.imwrite(str(tmp_path / "red.png"), picture)
    assert read_rgb(tmp_path / "red.png")[0, 0].tolist() == [200, 0, 0]
    assert read_grey(tmp_path / "red.png").shape == (9, 8)
    grey = views()[0]
    cv2.imwrite(str(tmp_path / "deep.png"), grey.astype(np.uint16) << 4)  # 12 bits in 16
    np.testing.assert_array_equal(read_grey(tmp_path / "deep.png"), grey)
    np.testing.assert_array_equal(read_rgb(tmp_path / "deep.png")[..., 0], grey)


def test_files_that_are_not_images_are_named(tmp_path):
    whole = cv2.imencode(".png", views()[0])[1].tobytes()
    for name, content in (("empty", b""), ("text", b"not a picture"), ("cut.png", whole[:2000])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read_image(tmp_path / name)
    for name in ("missing.png", "."):
        with pytest.raises(InputError, match="cannot read image"):
            read_image(tmp_path / name)


def chunk(kind, data):
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def claiming(suffix, side):
    """A file of about 1 KB whose header claims an image of side × side."""
    small = np.random.default_rng(0).integers(0, 256, (12, 10, 3), np.uint8)
    lossy = [cv2.IMWRITE_WEBP_QUALITY, 80]
    content = bytearray(cv2.imencode(suffix, small, lossy)[1].tobytes())
    if suffix == ".png":
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(999)))
    if suffix == ".jpg":
        start = content.index(b"\xff\xc0\0\x11") + 5
        content[start : start + 4] = struct.pack(">HH", side, side)
    elif suffix == ".webp":
        start = content.index(b"VP8 ") + 14
        content[start : start + 4] = struct.pack("<HH", 16_383, 16_383)  # the most that it can
    elif suffix == ".bmp":
        content[18:26] = struct.pack("<ii", side, side)
    return bytes(content)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".bmp"])
def test_headers_that_claim_more_than_the_file_holds_are_refused(tmp_path, suffix):
    path = tmp_path / f"bomb{suffix}"
    path.write_bytes(claiming(suffix, 30_000))
    assert path.stat().st_size < 2000
    with pytest.raises(InputError, match=rf"bomb\{suffix} claims to have [\d,]+ pixels"):
        read_image(path)


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_large_flat_images_are_read(tmp_path, suffix):
    flat = np.full((5000, 5000), 90, np.uint8)
    cv2.imwrite(str(tmp_path / f"flat{suffix}"), flat)
    np.testing.assert_array_equal(read_grey(tmp_path / f"flat{suffix}"), flat)


def test_colour_profiles_of_png_files_change_nothing_and_are_not_complained_about(tmp_path, capfd):
    picture = np.random.default_rng(0).integers(0, 256, (12, 9, 3), np.uint8)
    encoded = io.BytesIO()
    Image.fromarray(picture).save(encoded, "png", icc_profile=b"not a profile" * 20)
    (tmp_path / "profile.png").write_bytes(encoded.getvalue())
    assert b"iCCP" in encoded.getvalue()
    np.testing.assert_array_equal(read_rgb(tmp_path / "profile.png"), picture)
    assert capfd.readouterr().err == ""
