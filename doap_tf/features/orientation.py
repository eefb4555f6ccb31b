"""Turning frames to the dominant gradient of their surroundings."""

import math

import cv2
import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.features.frames import angles, compose, radii, semi_axes, similarity_frames
from doap_tf.features.gradients import (
    BINS,
    CUT_OFF,
    DERIVATIVE_SIGMA,
    WINDOW_SIGMA,
    frame_gradients,
)

_FINE = 4  # finer bins per bin, in which gradients are counted
_CHUNK = 512

# Circles take the gradients at pixels of the smoothed image, halved as long as radii allow.
_LEAST_RADIUS = 1.6  # in pixels of the halved image
_SCALES = 4  # smoothed images per doubling of the radius
_SCHARR_VARIANCE = 0.35  # of the smoothing that is part of Scharr's operator


def orient(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Turns frames to the strongest peak of a histogram of gradient directions, as SIFT does.

    Directions are taken in each frame's own coordinates; a frame gets one orientation.

    Args:
        image: uint8 [H, W].
        frames: [N, 2, 3].

    Returns:
        Frames [N, 2, 3] of the same ellipses.
    """
    angle = np.zeros(len(frames))
    circles = _are_circles(frames, image.shape)
    if circles.any():
        angle[circles] = _angles_of_circles(image, frames[circles])
    if not circles.all():
        angle[~circles] = _angles_of_ellipses(image, frames[~circles])
    return compose(frames, similarity_frames(0, 0, np.ones(len(frames)), angle))


def _are_circles(frames: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Which frames [N] are circles, not mirrored, in the image and neither tiny nor huge."""
    longer, shorter = semi_axes(frames).T
    round_ones = (shorter > (1 - 1e-6) * longer) & (np.linalg.det(frames[:, :, :2]) > 0)
    sizes = (longer >= _LEAST_RADIUS * 2 ** (-0.5 / _SCALES)) & (longer < min(shape))
    centres = frames[:, :, 2]
    inside = ((centres >= 0) & (centres <= np.array(shape[::-1]) - 1)).all(axis=1)
    return round_ones & sizes & inside


def _angles_of_ellipses(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    angle = np.empty(len(frames))
    pyramid = Pyramid(image.astype(np.float32))
    for start in range(0, len(frames), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        angle[chunk] = _dominant_angles(*frame_gradients(pyramid, frames[chunk], WINDOW_SIGMA))
    return angle


def _angles_of_circles(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    angle = np.empty(len(frames))
    radius = radii(frames)
    scales = np.rint(_SCALES * np.log2(radius / _LEAST_RADIUS)).astype(int)
    smoothed: np.ndarray = image.astype(np.float32)
    spacing = 1
    for scale in np.unique(scales):
        while spacing < 2 ** (scale // _SCALES):
            smoothed = cv2.pyrDown(smoothed, borderType=cv2.BORDER_REPLICATE)
            spacing *= 2
        typical = _LEAST_RADIUS * 2 ** (scale / _SCALES) / spacing
        half = round(CUT_OFF * WINDOW_SIGMA * typical)
        # Every halving has smoothed with a variance of one pixel of its input.
        variance = (DERIVATIVE_SIGMA * typical) ** 2 - (1 - spacing**-2) / 3 - _SCHARR_VARIANCE
        padded = cv2.copyMakeBorder(smoothed, half, half, half, half, cv2.BORDER_REPLICATE)
        padded = cv2.GaussianBlur(padded, (0, 0), math.sqrt(variance))
        side = 2 * half + 1
        along, across = (
            np.lib.stride_tricks.sliding_window_view(
                cv2.Scharr(padded, cv2.CV_32F, *order), (side, side)
            )
            for order in ((1, 0), (0, 1))
        )
        members = np.flatnonzero(scales == scale)
        for start in range(0, len(members), _CHUNK):
            chunk = members[start : start + _CHUNK]
            centre = frames[chunk, :, 2] / spacing
            x, y = nearest = np.rint(centre).astype(int).T
            offsets = nearest[..., None] + np.arange(-half, half + 1) - centre.T[..., None]
            sigma = WINDOW_SIGMA * radius[chunk, None] / spacing
            right, down = np.exp(-((offsets / sigma) ** 2) / 2).astype(np.float32)
            window = down[:, :, None] * right[:, None, :]
            angle[chunk] = _dominant_angles(along[y, x], across[y, x], window)
    return angle - angles(frames)


def _dominant_angles(along: np.ndarray, across: np.ndarray, window: np.ndarray) -> np.ndarray:
    """Angles [N] where gradients [N, S, S] in a window [S, S] or [N, S, S] are strongest."""
    count, fine_bins = len(along), BINS * _FINE
    magnitude, direction = cv2.cartToPolar(along.reshape(count, -1), across.reshape(count, -1))
    fine = np.minimum((direction * (fine_bins / (2 * np.pi))).astype(np.int32), fine_bins - 1)
    fine += np.arange(0, count * fine_bins, fine_bins, dtype=np.int32)[:, None]
    weight = magnitude * window.reshape(-1, magnitude.shape[1])
    histogram = np.bincount(fine.ravel(), weight.ravel(), minlength=count * fine_bins)
    # Finer bins are shared out between the nearest two bins. (No product of matrices: the threads
    # of a BLAS get in the way of OpenCV's.)
    upper = (np.arange(_FINE) + 0.5) / _FINE
    histogram = histogram.reshape(count, BINS, _FINE)
    above, below = (np.einsum("nbf,f->nb", histogram, share) for share in (upper, 1 - upper))
    histogram = below + np.roll(above, 1, axis=1)
    for _ in range(2):
        near = np.roll(histogram, 1, axis=1) + np.roll(histogram, -1, axis=1)
        far = np.roll(histogram, 2, axis=1) + np.roll(histogram, -2, axis=1)
        histogram = (6 * histogram + 4 * near + far) / 16
    peak = histogram.argmax(axis=1)
    before, here, after = (
        np.take_along_axis(histogram, ((peak + step) % BINS)[:, None], axis=1)[:, 0]
        for step in (-1, 0, 1)
    )
    curvature = np.maximum(2 * here - before - after, 1e-12)
    return (peak + (after - before) / (2 * curvature)) * (2 * np.pi / BINS)
