"""Turning frames to the dominant gradient of their surroundings."""

import cv2
import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.features.frames import compose, similarity_frames
from doap_tf.features.gradients import frame_gradients

_BINS = 36
_WINDOW_SIGMA = 1.5  # in radii of the frame, as in Lowe's SIFT
_CHUNK = 512


def orient(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Turns frames to the strongest peak of a histogram of gradient directions, as SIFT does.

    Directions are taken in each frame's own coordinates; a frame gets one orientation.

    Args:
        image: uint8 [H, W].
        frames: [N, 2, 3].

    Returns:
        Frames [N, 2, 3] of the same ellipses.
    """
    pyramid = Pyramid(image.astype(np.float32))
    angle = np.zeros(len(frames))
    for start in range(0, len(frames), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        angle[chunk] = _dominant_angles(pyramid, frames[chunk])
    return compose(frames, similarity_frames(0, 0, np.ones(len(frames)), angle))


def _dominant_angles(pyramid: Pyramid, frames: np.ndarray) -> np.ndarray:
    along, across, window = frame_gradients(pyramid, frames, _WINDOW_SIGMA)
    magnitude, direction = cv2.cartToPolar(
        along.reshape(len(frames), -1), across.reshape(len(frames), -1)
    )
    weight = magnitude * window.ravel()
    position = direction * (_BINS / (2 * np.pi))
    lower = np.floor(position)
    fraction = position - lower
    row = np.arange(len(frames))[:, None] * _BINS
    lower = lower.astype(np.int64)
    histogram = np.bincount(
        np.concatenate([row + lower % _BINS, row + (lower + 1) % _BINS]).ravel(),
        np.concatenate([weight * (1 - fraction), weight * fraction]).ravel(),
        minlength=len(frames) * _BINS,
    ).reshape(-1, _BINS)
    for _ in range(2):
        near = np.roll(histogram, 1, axis=1) + np.roll(histogram, -1, axis=1)
        far = np.roll(histogram, 2, axis=1) + np.roll(histogram, -2, axis=1)
        histogram = (6 * histogram + 4 * near + far) / 16
    peak = histogram.argmax(axis=1)
    before, here, after = (
        np.take_along_axis(histogram, ((peak + step) % _BINS)[:, None], axis=1)[:, 0]
        for step in (-1, 0, 1)
    )
    curvature = np.maximum(2 * here - before - after, 1e-12)
    return (peak + (after - before) / (2 * curvature)) * (2 * np.pi / _BINS)
