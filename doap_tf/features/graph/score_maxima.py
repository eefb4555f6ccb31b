"""Keypoints as maxima of scores inside a TensorFlow graph: the twin of `features.score_maxima`."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from doap_tf.features.keypoint_maxima import (
    BORDER,
    RADIUS,
    SMOOTHING,
    TEXTURE,
    paraboloid_vertex,
)

_SMOOTHING_KERNEL = np.exp(-((np.arange(-5, 6) / SMOOTHING) ** 2) / 2)
_SMOOTHING_KERNEL = (_SMOOTHING_KERNEL / _SMOOTHING_KERNEL.sum()).astype(np.float32)


def score_maxima(image: tf.Tensor, scores: tf.Tensor, threshold: float = -np.inf) -> tf.Tensor:
    """Finds keypoints in an image by the scores of its pixels, both float32 [H, W].

    Returns:
        x, y and scores above the threshold, float32 [N, 3].
    """
    scores = smoothed(scores, _SMOOTHING_KERNEL)
    peak = (scores == _highest(scores, 2 * RADIUS + 1)) & (scores > threshold)
    inside = slice(BORDER, -BORDER)
    pixels = tf.cast(tf.where(peak[inside, inside]), tf.int32) + BORDER
    around = tf.gather_nd(tf.cast(peak, tf.int32), pixels[:, tf.newaxis] + _window(RADIUS))
    single = tf.reduce_sum(around, axis=1) == 1
    maxima = _refined(scores, tf.boolean_mask(pixels, single))
    texture = _highest(image, TEXTURE) + _highest(-image, TEXTURE)
    places = tf.cast(tf.round(maxima[:, 1::-1]), tf.int32)
    return tf.boolean_mask(maxima, tf.gather_nd(texture, places) > 0)


def smoothed(image: tf.Tensor, kernel: np.ndarray) -> tf.Tensor:
    """Convolves an image [H, W], mirrored at its border, with a kernel along both axes."""
    height, width = tf.unstack(tf.shape(image))
    padded = mirrored(image, len(kernel) // 2)
    rows = sum(padded[k : k + height] * weight for k, weight in enumerate(kernel))
    return sum(rows[:, k : k + width] * weight for k, weight in enumerate(kernel))


def mirrored(
    image: tf.Tensor, margin: int, further: Sequence[int | tf.Tensor] = (0, 0)
) -> tf.Tensor:
    """Continues an image by reflections, also beyond its own size.

    Args:
        image: [H, W].
        margin: Pixels on every side.
        further: Pixels more below and on the right.
    """
    for axis, more in enumerate(further):
        length = tf.shape(image)[axis]
        period = tf.maximum(2 * (length - 1), 1)
        indices = tf.abs(tf.range(-margin, length + margin + more)) % period
        image = tf.gather(image, tf.minimum(indices, period - indices), axis=axis)
    return image


def _highest(image: tf.Tensor, side: int) -> tf.Tensor:
    """The highest value in the square around each pixel, [h, w]; faster than pooling."""
    image = tf.pad(image, [[side // 2, side // 2]] * 2, constant_values=image.dtype.min)
    width = 1
    while width < side:
        step = min(width, side - width)
        image = tf.maximum(image[:-step], image[step:])
        image = tf.maximum(image[:, :-step], image[:, step:])
        width += step
    return image


def _window(radius: int) -> np.ndarray:
    """Row and column of all pixels of a square around (0, 0), int32 [P, 2]."""
    return np.indices([2 * radius + 1] * 2, np.int32).reshape(2, -1).T - radius


def _refined(scores: tf.Tensor, pixels: tf.Tensor) -> tf.Tensor:
    """x, y and score [N, 3] of the maxima at pixels, int32 [N, 2], refined by a paraboloid."""
    neighbours = tf.unstack(tf.gather_nd(scores, pixels[:, tf.newaxis] + _window(1)), axis=1)
    *steps, denominator = paraboloid_vertex(neighbours)
    right, down = (
        tf.clip_by_value(step / tf.maximum(denominator, 1e-6), -0.5, 0.5) for step in steps
    )
    y, x = tf.unstack(tf.cast(pixels, tf.float32), 2, axis=1)
    return tf.stack([x + right, y + down, neighbours[4]], axis=1)
