"""Writing pictures: what OpenCV reads is what was given."""

import cv2
import numpy as np
import pytest
from matplotlib.figure import Figure

from doap_tf.drawing.pictures import encode_png, render, write_picture

GREY = np.random.default_rng(0).integers(0, 256, [30, 40], np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, [30, 40, 3], np.uint8)


@pytest.mark.parametrize("picture", [GREY, COLOUR], ids=["grey", "colour"])
@pytest.mark.parametrize("suffix", ["png", "bmp", "tif"])
def test_pictures_are_in_opencvs_order_of_channels(tmp_path, picture, suffix):
    path = tmp_path / "new" / f"picture.{suffix}"
    write_picture(path, picture)
    np.testing.assert_array_equal(cv2.imread(str(path), cv2.IMREAD_UNCHANGED), picture)


def test_png_and_jpeg(tmp_path):
    decoded = cv2.imdecode(np.frombuffer(encode_png(COLOUR), np.uint8), cv2.IMREAD_UNCHANGED)
    np.testing.assert_array_equal(decoded, COLOUR)
    smooth = np.repeat(np.arange(64, dtype=np.uint8)[:, np.newaxis], 64, axis=1)
    write_picture(tmp_path / "picture.jpg", smooth)
    read = cv2.imread(str(tmp_path / "picture.jpg"), cv2.IMREAD_GRAYSCALE)
    assert np.abs(read.astype(int) - smooth).max() <= 2


def test_figures_are_rendered_in_bgr():
    assert (render(Figure(figsize=(1, 2), dpi=50, facecolor="#ff8000")) == [0, 128, 255]).all()
