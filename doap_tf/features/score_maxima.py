"""Keypoints as maxima of a network's scores; `features.graph.detection` is the twin in graphs."""

import cv2
import numpy as np

from doap_tf.features.keypoint_maxima import (
    BORDER,
    RADIUS,
    SMOOTHING,
    TEXTURE,
    paraboloid_vertex,
)


def score_maxima(
    image: np.ndarray, scores: np.ndarray, threshold: float = -np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds keypoints in an image, uint8 [H, W], by the scores of its pixels, float32 [H, W].

    Returns:
        x, y and scores above the threshold, each [N].
    """
    x, y, score = _maxima(cv2.GaussianBlur(scores, (0, 0), SMOOTHING), threshold)
    # Where there is nothing to see, scores only repeat the blocks of the network.
    square = np.ones((TEXTURE, TEXTURE), np.uint8)
    texture = cv2.morphologyEx(image, cv2.MORPH_GRADIENT, square)
    textured = texture[np.rint(y).astype(int), np.rint(x).astype(int)] > 0
    return x[textured], y[textured], score[textured]


def _maxima(scores: np.ndarray, threshold: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and scores of the single maxima above a threshold, refined by a paraboloid."""
    side = 2 * RADIUS + 1
    peak = (scores == cv2.dilate(scores, np.ones((side, side), np.uint8))) & (scores > threshold)
    equals = cv2.boxFilter(peak.astype(np.uint8), -1, (side, side), normalize=False)
    y, x = np.divmod(np.flatnonzero(peak & (equals == 1)), peak.shape[1])
    inside = (np.minimum(x, y) >= BORDER) & (x < peak.shape[1] - BORDER)
    inside &= y < peak.shape[0] - BORDER
    y, x = y[inside], x[inside]
    neighbours = [scores[y + down, x + right] for down in (-1, 0, 1) for right in (-1, 0, 1)]
    *steps, denominator = paraboloid_vertex(neighbours)
    right, down = np.clip(steps / np.maximum(denominator, 1e-6), -0.5, 0.5)
    return x + right, y + down, neighbours[4]
