"""Detecting keypoints inside a TensorFlow graph: the twin of `doap_tf.features.learned`."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.features.graph.score_maxima import mirrored, score_maxima, smoothed
from doap_tf.features.keypoint_maxima import (
    DEVIATION,
    LEAST_DEVIATION,
    MEAN,
    SMALLEST_SIDE,
    STEP,
    THRESHOLD,
    network_margin,
)

_KERNEL = np.array([1, 42, 170, 42, 1], np.float32) / 256  # OpenCV's Gaussian of σ 0.6 for bytes


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
        factor, offset = map(tf.squeeze, contrast_map(image[tf.newaxis, :, :, tf.newaxis]))

        def size_of(number: tf.Tensor) -> tf.Tensor:
            return tf.cast(tf.round(sides / STEP ** tf.cast(number, tf.float64)), tf.int32)

        def add_level(
            number: tf.Tensor, level: tf.Tensor, keypoints: tf.TensorArray
        ) -> tuple[tf.Tensor | tf.TensorArray, ...]:
            peaks = score_maxima(level, self._scores(factor * level + offset), THRESHOLD)
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

    def _scores(self, level: tf.Tensor) -> tf.Tensor:
        """Scores of every pixel, float32 [h, w]."""
        height, width = tf.unstack(tf.shape(level))
        margin = self._margin
        padded = mirrored(level, margin, [-height % self._stride, -width % self._stride])
        scores = self._network(padded[tf.newaxis, :, :, tf.newaxis])[0, :, :, 0]
        return scores[margin : margin + height, margin : margin + width]


def contrast_map(images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns what gives images the brightness and contrast that networks are trained with.

    Args:
        images: Grey values, float32 [B, H, W, 1].

    Returns:
        Factors and offsets [B, 1, 1, 1]: a network is given `factor * image + offset`.
    """
    mean, variance = tf.nn.moments(images, axes=(1, 2, 3), keepdims=True)
    factor = DEVIATION / tf.maximum(tf.sqrt(variance), LEAST_DEVIATION)
    return factor, MEAN - factor * mean


def _smaller(level: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """The next level, rounded where OpenCV rounds."""
    blurred = _rounded(smoothed(level, _KERNEL))
    resized = tf.raw_ops.ResizeBilinear(
        images=blurred[tf.newaxis, :, :, tf.newaxis], size=size, half_pixel_centers=True
    )
    return _rounded(resized[0, :, :, 0])


def _rounded(values: tf.Tensor) -> tf.Tensor:
    return tf.floor(values + 0.5)
