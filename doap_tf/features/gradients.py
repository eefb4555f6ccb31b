"""Gaussian-smoothed gradients around many frames at once, in the coordinates of each frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from doap_tf.features.cutting import Pyramid
    from doap_tf.features.graph.cutting import GraphPyramid

SAMPLES = 3  # patch pixels per radius of the frame
DERIVATIVE_SIGMA = 0.7  # in radii of the frame
CUT_OFF = 2.5  # of a window, in its σ

# Of orientations, with OpenCV or in a graph:
BINS = 36  # of the histogram of directions
WINDOW_SIGMA = 1.5  # in radii of the frame, as in Lowe's SIFT


class GradientOperators(NamedTuple):
    """How the gradients within a Gaussian window are computed from patches.

    Products with banded matrices convolve a whole stack without mixing neighbouring patches.

    Attributes:
        size: Side of a patch in pixels.
        magnification: Half the side of a patch over the frame's radius.
        smooth: float32 [S, size].
        differentiate: float32 [S, size]; smooth @ patches @ differentiate.T are the derivatives
            along the frame's first axis at S × S points.
        window: float32 [S, S].
    """

    size: int
    magnification: float
    smooth: np.ndarray
    differentiate: np.ndarray
    window: np.ndarray


def gradient_operators(window_sigma: float) -> GradientOperators:
    """Returns the operators for a window of σ `window_sigma` in radii, cut off at 2.5 σ."""
    half = round(CUT_OFF * window_sigma * SAMPLES)
    margin = int(np.ceil(3 * DERIVATIVE_SIGMA * SAMPLES))
    size = 2 * (half + margin) + 1
    offsets = np.arange(-margin, margin + 1) / (DERIVATIVE_SIGMA * SAMPLES)
    gaussian = np.exp(-(offsets**2) / 2)
    gaussian /= gaussian.sum()
    distances = np.arange(-half, half + 1) / (window_sigma * SAMPLES)
    return GradientOperators(
        size,
        size / (2 * SAMPLES),
        _banded(gaussian, size),
        _banded(gaussian * offsets / DERIVATIVE_SIGMA, size),
        np.exp(-(distances[:, None] ** 2 + distances**2) / 2).astype(np.float32),
    )


def frame_gradients(
    pyramid: Pyramid | GraphPyramid, frames: Any, window_sigma: float
) -> tuple[Any, Any, np.ndarray]:
    """Gradients within a Gaussian window around each frame, with OpenCV or in a graph.

    Args:
        pyramid: Of a float32 image.
        frames: As the pyramid takes them: an array [N, 2, 3], or a tensor [N, 6].
        window_sigma: σ of the window in radii of the frame; it is cut off at `CUT_OFF` σ.

    Returns:
        Derivatives along the frame's first and second axis, each [N, S, S] at the same S × S
        points, and the window [S, S].
    """
    size, magnification, smooth, differentiate, window = gradient_operators(window_sigma)
    patches = pyramid.cut(frames, size, magnification)
    return smooth @ patches @ differentiate.T, differentiate @ patches @ smooth.T, window


def _banded(kernel: np.ndarray, size: int) -> np.ndarray:
    """The matrix [size − len(kernel) + 1, size] that correlates with `kernel`."""
    rows = size - len(kernel) + 1
    matrix = np.zeros((rows, size), np.float32)
    for row in range(rows):
        matrix[row, row : row + len(kernel)] = kernel
    return matrix
