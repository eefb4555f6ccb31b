import cv2
import numpy as np
import pytest
from PIL import Image

from doap_tf.errors import InputError
from doap_tf.matching import as_colour, as_grey, read_image
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
        None,
    ],
)
def test_what_is_no_image_is_refused(image):
    with pytest.raises(InputError, match="image"):
        as_grey(image)


def test_exif_orientation_is_followed_only_where_asked(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    path = tmp_path / "phone.jpg"
    Image.fromarray(views()[0]).save(path, exif=exif)
    assert read_image(path, upright=False).shape == (300, 400)
    assert read_image(path).shape == (400, 300)


def test_depth_is_read_whole(tmp_path):
    deep = views()[0].astype(np.uint16) * 13
    cv2.imwrite(str(tmp_path / "deep.png"), deep)
    for upright in (True, False):
        np.testing.assert_array_equal(read_image(tmp_path / "deep.png", upright), deep)


def test_files_that_are_no_images_are_named(tmp_path):
    whole = cv2.imencode(".png", views()[0])[1].tobytes()
    for name, content in (("empty", b""), ("text", b"not a picture"), ("cut.png", whole[:2000])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            read_image(tmp_path / name)
    for name in ("missing.png", "."):
        with pytest.raises(InputError, match="cannot read image"):
            read_image(tmp_path / name)
