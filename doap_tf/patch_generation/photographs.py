"""Reading the photographs that training data are cut from."""

import pathlib

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.readers.images import read_grey

_MAX_PIXELS = 1 << 21  # larger photographs are shrunk to this: their finest pixels are soft


def read_photograph(path: pathlib.Path, smallest_side: int) -> np.ndarray:
    """Reads grey values, uint8 [H, W], of at most two megapixels."""
    image = read_grey(path)
    if min(image.shape) < smallest_side:
        raise InputError(
            f"{path} has {image.shape[1]}×{image.shape[0]} pixels; at least {smallest_side} are "
            "required along both sides."
        )
    shrink = np.sqrt(_MAX_PIXELS / image.size)
    if shrink < 1:
        image = cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
    return image
