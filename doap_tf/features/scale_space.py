"""Harris-Laplace and Hessian-Laplace points: maxima in space, extrema of the Laplacian in scale."""

from collections.abc import Iterator
from typing import NamedTuple

import cv2
import numpy as np

from doap_tf.counts import count

# Four scales per octave, so that the scale two steps below is 1/√2 ≈ 0.7 times as large: the
# customary ratio of Harris' differentiation scale to its integration scale.
_SCALES = 4
_BELOW = 3  # scales below an octave's first: one for comparing, two more to differentiate at
_FIRST_SIGMA = 1.2  # the finest scale that is searched, in pixels
_IMAGE_SIGMA = 0.5  # the blur assumed in the image
_BORDER = 5  # in pixels of the octave's grid; nothing is searched there, as in OpenCV's SIFT
_SMALLEST_SIDE = 16
_THRESHOLDS = {"harris": 5e-7, "hessian": 1.5e-3}  # least responses, for grey values of 0 to 1


class Points(NamedTuple):
    """Points: `x`, `y` and `sigma` in pixels of the image, and `response`; each [N]."""

    x: np.ndarray
    y: np.ndarray
    sigma: np.ndarray
    response: np.ndarray

    def __repr__(self) -> str:
        return f"Points({count(len(self.x), 'point')})"


class LaplaceDetector:
    """Detects points that are maxima of a measure in space and extrema of the Laplacian in scale.

    Args:
        measure: `"harris"` for corners, maxima of Harris' det μ − 0.04·tr²μ; `"hessian"` for blobs,
            maxima of the normalised determinant of the Hessian.
    """

    def __init__(self, measure: str):
        self._measure = _harris if measure == "harris" else _hessian
        self._threshold = _THRESHOLDS[measure]

    def detect(self, image: np.ndarray, mask: np.ndarray | None = None) -> Points:
        """Finds points in an image, uint8 [H, W], where the mask [H, W] is not zero."""
        by_scale = [Points(*np.zeros((4, 0)))]
        for spacing, smoothed, sigmas in _octaves(image):
            laplacians = [_laplacian(smoothed, sigmas, scale) for scale in (_BELOW - 1, _BELOW)]
            for scale in range(_BELOW, _BELOW + _SCALES):
                laplacians = [*laplacians[-2:], _laplacian(smoothed, sigmas, scale + 1)]
                response = self._measure(smoothed, sigmas, scale)
                x, y = _maxima(response, self._threshold)
                below, here, above = (laplacian[y, x] for laplacian in laplacians)
                peak = (here > below) & (here >= above)
                x, y = x[peak], y[peak]
                offset = _vertex(below[peak], here[peak], above[peak])
                dx = _vertex(response[y, x - 1], response[y, x], response[y, x + 1])
                dy = _vertex(response[y - 1, x], response[y, x], response[y + 1, x])
                sigma = sigmas[scale] * 2 ** (offset / _SCALES)
                by_scale.append(
                    Points((x + dx) * spacing, (y + dy) * spacing, sigma * spacing, response[y, x])
                )
        points = Points(*(np.concatenate(column) for column in zip(*by_scale, strict=True)))
        if mask is None:
            return points
        kept = mask[np.rint(points.y).astype(int), np.rint(points.x).astype(int)] > 0
        return Points(*(column[kept] for column in points))


def _harris(smoothed: list[np.ndarray], sigmas: np.ndarray, scale: int) -> np.ndarray:
    differentiation = smoothed[scale - 2]
    dx = cv2.Sobel(differentiation, cv2.CV_32F, 1, 0, ksize=1, scale=0.5)
    dy = cv2.Sobel(differentiation, cv2.CV_32F, 0, 1, ksize=1, scale=0.5)
    xx, yy, xy = (
        _smooth(product, sigmas[scale]) * sigmas[scale - 2] ** 2
        for product in (dx * dx, dy * dy, dx * dy)
    )
    return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2


def _hessian(smoothed: list[np.ndarray], sigmas: np.ndarray, scale: int) -> np.ndarray:
    image = smoothed[scale]
    xx = cv2.Sobel(image, cv2.CV_32F, 2, 0, ksize=1)
    yy = cv2.Sobel(image, cv2.CV_32F, 0, 2, ksize=1)
    xy = cv2.Sobel(image, cv2.CV_32F, 1, 1, ksize=3, scale=0.25)
    return (xx * yy - xy * xy) * sigmas[scale] ** 4


def _laplacian(smoothed: list[np.ndarray], sigmas: np.ndarray, scale: int) -> np.ndarray:
    """The magnitude of the normalised Laplacian at one scale."""
    return np.abs(cv2.Laplacian(smoothed[scale], cv2.CV_32F)) * sigmas[scale] ** 2


def _octaves(image: np.ndarray) -> Iterator[tuple[int, list[np.ndarray], np.ndarray]]:
    """Yields each octave's pixel spacing, its images and their σ in pixels of its grid."""
    sigmas = _FIRST_SIGMA * 2.0 ** ((np.arange(_BELOW + _SCALES + 1) - _BELOW) / _SCALES)
    increments = np.sqrt(np.diff(sigmas**2))
    first = _smooth(image.astype(np.float32) / 255, np.sqrt(sigmas[0] ** 2 - _IMAGE_SIGMA**2))
    spacing = 1
    while min(first.shape) >= _SMALLEST_SIDE:
        smoothed = [first]
        for increment in increments:
            smoothed.append(_smooth(smoothed[-1], increment))
        yield spacing, smoothed, sigmas
        # Every second pixel: index 0 stays at coordinate 0, so positions only need to be scaled.
        first = np.ascontiguousarray(smoothed[_SCALES][::2, ::2])
        spacing *= 2


def _smooth(image: np.ndarray, sigma: float) -> np.ndarray:
    return cv2.GaussianBlur(image, (0, 0), float(sigma))


def _maxima(response: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the pixels above `threshold` that no neighbour exceeds."""
    peaks = (response > threshold) & (response >= cv2.dilate(response, np.ones((3, 3), np.uint8)))
    y, x = np.nonzero(peaks[_BORDER:-_BORDER, _BORDER:-_BORDER])
    return x + _BORDER, y + _BORDER


def _vertex(before: np.ndarray, here: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Where, in steps from −½ to ½, the parabola through three values has its vertex."""
    curvature = before - 2 * here + after
    safe = np.where(curvature < 0, curvature, -1.0)
    offset = np.where(curvature < 0, (before - after) / (2 * safe), 0.0)
    return np.clip(offset, -0.5, 0.5)
