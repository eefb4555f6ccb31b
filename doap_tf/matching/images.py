"""Images as users have them (grey, colour, deep, with alpha), as what features are found in."""

import os

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.readers.images import decode_file


def read_image(path: str | os.PathLike, upright: bool = True) -> np.ndarray:
    """Reads an image file with all its channels and its whole depth.

    Args:
        path: The file, in any format that OpenCV knows.
        upright: Whether to turn the image as its EXIF orientation says. COLMAP and hloc do not,
            so what is written for them must not either.

    Returns:
        [H, W], or [H, W, 3] in OpenCV's order BGR; uint8, uint16 or float32. Where `upright` is
        false an alpha channel comes too.
    """
    flags = cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR if upright else cv2.IMREAD_UNCHANGED
    return decode_file(path, flags)


def as_grey(image: np.ndarray) -> np.ndarray:
    """Gives any image as uint8 [H, W].

    Args:
        image: [H, W], [H, W, 1], BGR [H, W, 3] or BGRA [H, W, 4], whose alpha is left out. uint8
            stays; uint16 keeps its eight leading bits in use, so that 12 bits in 16 are not dark;
            floats count from 0 to 1, or to 255 if any is above 1.
    """
    image = _as_bytes(_checked(image))
    if image.ndim == 2:
        return image
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY if image.shape[2] == 3 else cv2.COLOR_BGRA2GRAY)


def as_colour(image: np.ndarray) -> np.ndarray:
    """Gives any image that `as_grey` takes as uint8 BGR [H, W, 3]."""
    image = _as_bytes(_checked(image))
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return np.ascontiguousarray(image[..., :3])


def _checked(image: np.ndarray) -> np.ndarray:
    image = np.asarray(image)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    planes = image.shape[2:]
    if image.ndim < 2 or planes not in ((), (3,), (4,)) or not image.size:
        raise InputError(
            f"an image must have the shape [H, W], [H, W, 3] or [H, W, 4] and not be empty, "
            f"but has {list(image.shape)}."
        )
    return image


def _as_bytes(image: np.ndarray) -> np.ndarray:
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    if image.dtype == np.uint16:
        bits = max(8, int(image.max()).bit_length())
        return (image >> (bits - 8)).astype(np.uint8)
    if not np.issubdtype(image.dtype, np.floating):
        raise InputError(f"an image must be uint8, uint16 or float, not {image.dtype}.")
    if not np.isfinite(image).all():
        raise InputError("an image of floats must be finite, but holds NaN or infinity.")
    scale = 255.0 if image.max() <= 1 else 1.0
    return np.clip(np.rint(image * scale), 0, 255).astype(np.uint8)
