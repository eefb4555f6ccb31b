"""Detecting keypoints inside a TensorFlow graph: the twin of `doap_tf.features.learned`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.features.keypoint_maxima import (
    BORDER,
    RADIUS,
    SMALLEST_SIDE,
    SMOOTHING,
    STEP,
    TEXTURE,
    THRESHOLD,
    network_margin,
    paraboloid_vertex,
)

_KERNEL = np.array([1, 42, 170, 42, 1], np.float32) / 256  # OpenCV's Gaussian of σ 0.6 for bytes
_SMOOTHING_KERNEL = np.exp(-((np.arange(-5, 6) / SMOOTHING) ** 2) / 2)
_SMOOTHING_KERNEL = (_SMOOTHING_KERNEL / _SMOOTHING_KERNEL.sum()).astype(np.float32)


class GraphKeypoints(NamedTuple):
    """Upright keypoints, float32 [N] each, the strongest first; lengths in pixels of the image."""

    x: tf.Tensor
    y: tf.Tensor
    radius: tf.Tensor
    score: tf.Tensor


class GraphDetector:
    """Finds the maxima of a network's scores at every level of an image pyramid.

    Args:
        network: Gives the scores float32 [1, H, W, 1] of an image float32 [1, H, W, 1] whose sides
            are multiples of the stride.
        stride: Side of the network's blocks in pixels.
        receptive_field: Side of the square on which a block's scores depend, in pixels.
        radius: Of the keypoints at the first level.
    """

    def __init__(
        self,
        network: Callable[[tf.Tensor], tf.Tensor],
        stride: int,
        receptive_field: int,
        radius: float,
    ):
        self._network = network
        self._stride = stride
        self._margin = network_margin(stride, receptive_field)
        self._radius = radius

    def detect(self, image: tf.Tensor, max_keypoints: tf.Tensor) -> GraphKeypoints:
        """Finds the strongest keypoints.

        Args:
            image: Grey values, integers of 0 to 255, float32 [H, W].
            max_keypoints: Number to keep, int32 [].
        """
        sides = tf.cast(tf.shape(image), tf.float64)

        def size_of(number: tf.Tensor) -> tf.Tensor:
            return tf.cast(tf.round(sides / STEP ** tf.cast(number, tf.float64)), tf.int32)

        def add_level(
            number: tf.Tensor, level: tf.Tensor, keypoints: tf.TensorArray
        ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
            peaks = self._peaks(level)
            scale = tf.cast(sides / tf.cast(tf.shape(level), tf.float64), tf.float32)[::-1]
            radius = self._radius * STEP ** tf.cast(number, tf.float32)
            radii = tf.fill([tf.shape(peaks)[0], 1], radius)
            rows = tf.concat([(peaks[:, :2] + 0.5) * scale - 0.5, radii, peaks[:, 2:]], axis=1)
            return number + 1, _smaller(level, size_of(number + 1)), keypoints.write(number, rows)

        _, _, keypoints = tf.while_loop(
            lambda number, *_: (number == 0) | (tf.reduce_min(size_of(number)) >= SMALLEST_SIDE),
            add_level,
            (
                0,
                image,
                tf.TensorArray(
                    tf.float32, 0, dynamic_size=True, infer_shape=False, element_shape=[None, 4]
                ),
            ),
            parallel_iterations=1,
        )
        rows = keypoints.concat()
        strongest = tf.math.top_k(rows[:, 3], tf.minimum(max_keypoints, tf.shape(rows)[0]))
        return GraphKeypoints(*tf.unstack(tf.gather(rows, strongest.indices), 4, axis=1))

    def _peaks(self, level: tf.Tensor) -> tf.Tensor:
        """x, y and score of the single maxima of one level, float32 [N, 3], in its pixels."""
        scores = _smoothed(self._scores(level), _SMOOTHING_KERNEL)
        textured = _highest(level, TEXTURE) > -_highest(-level, TEXTURE)
        peak = (scores == _highest(scores, 2 * RADIUS + 1)) & (scores > THRESHOLD) & textured
        inside = slice(BORDER, -BORDER)
        pixels = tf.cast(tf.where(peak[inside, inside]), tf.int32) + BORDER
        around = tf.gather_nd(scores, pixels[:, tf.newaxis] + _window(RADIUS))
        equal = around == tf.gather_nd(scores, pixels)[:, tf.newaxis]
        single = tf.math.count_nonzero(equal, axis=1) == 1
        return _refined(scores, tf.boolean_mask(pixels, single))

    def _scores(self, level: tf.Tensor) -> tf.Tensor:
        """Scores of every pixel, float32 [h, w]."""
        height, width = tf.unstack(tf.shape(level))
        margin = self._margin
        padded = _mirrored(level, margin, [-height % self._stride, -width % self._stride])
        scores = self._network(padded[tf.newaxis, :, :, tf.newaxis])[0, :, :, 0]
        return scores[margin : margin + height, margin : margin + width]


def _smaller(level: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The next level, rounded where OpenCV rounds."""
    smoothed = _rounded(_smoothed(level, _KERNEL))
    resized = tf.raw_ops.ResizeBilinear(
        images=smoothed[tf.newaxis, :, :, tf.newaxis], size=size, half_pixel_centers=True
    )
    return _rounded(resized[0, :, :, 0])


def _smoothed(image: tf.Tensor, kernel: np.ndarray) -> tf.Tensor:
    height, width = tf.unstack(tf.shape(image))
    padded = _mirrored(image, len(kernel) // 2)
    rows = sum(padded[k : k + height] * weight for k, weight in enumerate(kernel))
    return sum(rows[:, k : k + width] * weight for k, weight in enumerate(kernel))


def _rounded(values: tf.Tensor) -> tf.Tensor:
    return tf.floor(values + 0.5)


def _mirrored(
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
        indices = tf.math.floormod(tf.range(-margin, length + margin + more), period)
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
