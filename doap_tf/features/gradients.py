"""Gaussian-smoothed gradients around many frames at once, in the coordinates of each frame."""

import numpy as np

from doap_tf.features.cutting import Pyramid

_SAMPLES = 3  # patch pixels per radius of the frame
_DERIVATIVE_SIGMA = 0.7  # in radii of the frame


def frame_gradients(
    pyramid: Pyramid, frames: np.ndarray, window_sigma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients within a Gaussian window around each frame.

    Args:
        pyramid: Of a float32 image.
        frames: [N, 2, 3].
        window_sigma: σ of the window in radii of the frame; it is cut off at 2.5 σ.

    Returns:
        Derivatives along the frame's first and second axis, each [N, S, S] at the same S × S
        points, and the window [S, S].
    """
    half = round(2.5 * window_sigma * _SAMPLES)
    margin = int(np.ceil(3 * _DERIVATIVE_SIGMA * _SAMPLES))
    size = 2 * (half + margin) + 1
    patches = pyramid.cut(frames, size, size / (2 * _SAMPLES))

    offsets = np.arange(-margin, margin + 1) / (_DERIVATIVE_SIGMA * _SAMPLES)
    gaussian = np.exp(-(offsets**2) / 2)
    gaussian /= gaussian.sum()
    # Products with banded matrices convolve a whole stack without mixing neighbouring patches.
    smooth = _banded(gaussian, size)
    differentiate = _banded(gaussian * offsets / _DERIVATIVE_SIGMA, size)
    along = smooth @ patches @ differentiate.T
    across = differentiate @ patches @ smooth.T

    places = np.arange(-half, half + 1) / (window_sigma * _SAMPLES)
    window = np.exp(-(places[:, None] ** 2 + places**2) / 2).astype(np.float32)
    return along, across, window


def _banded(kernel: np.ndarray, size: int) -> np.ndarray:
    """The matrix [size − len(kernel) + 1, size] that correlates with `kernel`."""
    rows = size - len(kernel) + 1
    matrix = np.zeros((rows, size), np.float32)
    for row in range(rows):
        matrix[row, row : row + len(kernel)] = kernel
    return matrix
