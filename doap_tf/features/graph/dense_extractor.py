"""Reading an image with a dense network inside a graph: the twin of `matching.dense_extractor`."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from doap_tf.features.dense_pyramid import (
    ENLARGED,
    LARGEST_FACTOR,
    LEVELS,
    RADIUS,
    SMALLER_LEVEL,
    SMALLEST_SIDE,
)
from doap_tf.features.graph.detection import GraphKeypoints
from doap_tf.features.graph.score_maxima import score_maxima

_TAPS = 4  # pixels, whole or in part, that one of half the resolution covers along an axis
_LEAST_SHARE = 1e-3  # of a pixel that OpenCV counts


class GraphDenseExtractor:
    """Finds keypoints at every level of an image pyramid, and describes them.

    The first level is the image, enlarged if it is small. What describes a keypoint is sampled in
    the level that found it and in the next smaller one.

    Args:
        read: Gives the scores float32 [1, H, W, 1] of an image float32 [1, H, W, 1] and its maps of
            features, by its mean and standard deviation float32 [1, 2].
        sample: Gives the values float32 [1, N, C] of maps of features at points float32 [1, N, 2].
        describe: Gives the descriptors float32 [1, N, D] of such values.
        channels: C.
        stride: Of which the sides that `read` takes are multiples.
    """

    def __init__(
        self,
        read: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, Sequence[tf.Tensor]]],
        sample: Callable[[Sequence[tf.Tensor], tf.Tensor], tf.Tensor],
        describe: Callable[[tf.Tensor], tf.Tensor],
        channels: int,
        stride: int,
    ):
        self._read = read
        self._sample = sample
        self._describe = describe
        self._channels = channels
        self._stride = stride

    def extract(
        self, image: tf.Tensor, max_keypoints: tf.Tensor
    ) -> tuple[GraphKeypoints, tf.Tensor]:
        """Finds and describes the strongest keypoints.

        Args:
            image: Grey values, integers of 0 to 255, float32 [H, W], not empty.
            max_keypoints: Number to keep, int32 [].

        Returns:
            The keypoints and their descriptors, float32 [N, D].
        """
        size = tf.cast(tf.shape(image), tf.float64)
        factor = tf.sqrt(ENLARGED / tf.reduce_prod(size))
        size_read = size * tf.clip_by_value(factor, 1.0, LARGEST_FACTOR)

        def sides_of(number: tf.Tensor) -> tf.Tensor:
            sides = tf.round(size_read / tf.cast(2**number, tf.float64))
            return tf.maximum(1, tf.cast(sides, tf.int32))

        def add_level(
            number: tf.Tensor,
            smaller: tf.Tensor,
            sides: tf.Tensor,
            rows: tf.Tensor,
            larger: tf.Tensor,
        ) -> tuple[tf.Tensor, ...]:
            enlarged = tf.reduce_any(sides > tf.shape(smaller))
            smaller = tf.cond(enlarged, lambda: smaller, lambda: _shrunk(smaller, sides))
            level = tf.cond(enlarged, lambda: _enlarged(smaller, sides), lambda: smaller)
            scale = tf.cast(size / tf.cast(sides, tf.float64), tf.float32)[::-1]
            scores, features = self._maps(level)
            rows = tf.concat([rows, self._with_smaller(larger, features, scale)], axis=0)
            maxima = score_maxima(level, scores)
            maxima = _strongest(maxima, maxima[:, 2], max_keypoints)
            found = self._rows(maxima, features, scale)
            return number + 1, smaller, sides_of(number + 1), rows, found

        columns = 4 + self._channels
        none = tf.zeros([0, columns])
        *_, rows, last = tf.while_loop(
            lambda number, smaller, sides, rows, larger: (
                (number == 0) | ((number < LEVELS) & (tf.reduce_min(sides) >= SMALLEST_SIDE))
            ),
            add_level,
            (tf.constant(0), image, sides_of(tf.constant(0)), none, none),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, None]),
                tf.TensorShape([2]),
                tf.TensorShape([None, columns]),
                tf.TensorShape([None, columns]),
            ),
            parallel_iterations=1,
        )
        rows = tf.concat([rows, last], axis=0)
        rows = _strongest(rows, rows[:, 3], max_keypoints)
        descriptors = self._describe(rows[tf.newaxis, :, 4:])[0]
        return GraphKeypoints(*tf.unstack(rows[:, :4], axis=1)), descriptors

    def _rows(
        self, maxima: tf.Tensor, features: Sequence[tf.Tensor], scale: tf.Tensor
    ) -> tf.Tensor:
        """x, y, radius, score and values of the maps of a level's keypoints, float32 [n, 4 + C].

        Args:
            maxima: x and y in the level, and scores, float32 [n, 3].
            features: Maps of the level.
            scale: Pixels of the image in x and y.
        """
        points = maxima[:, :2]
        radii = tf.fill([tf.shape(points)[0], 1], RADIUS * tf.reduce_mean(scale))
        sampled = self._sample(features, points[tf.newaxis])[0]
        return tf.concat([(points + 0.5) * scale - 0.5, radii, maxima[:, 2:], sampled], axis=1)

    def _with_smaller(
        self, rows: tf.Tensor, features: Sequence[tf.Tensor], scale: tf.Tensor
    ) -> tf.Tensor:
        """Rows of a level whose values are pooled with those of the maps of the next one."""
        points = (rows[:, :2] + 0.5) / scale - 0.5
        there = self._sample(features, points[tf.newaxis])[0]
        pooled = (rows[:, 4:] + SMALLER_LEVEL * there) / (1 + SMALLER_LEVEL)
        return tf.concat([rows[:, :4], pooled], axis=1)

    def _maps(self, image: tf.Tensor) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
        """Scores of an image, float32 [h, w], and maps of features of it padded with its mean."""
        height, width = tf.unstack(tf.shape(image))
        mean = tf.reduce_mean(image)
        deviation = tf.sqrt(tf.reduce_mean(tf.square(image - mean)))
        stride = self._stride
        added = [(side + stride - 1) // stride * stride - side for side in (height, width)]
        padded = tf.pad(image, [[0, added[0]], [0, added[1]]], constant_values=mean)
        scores, features = self._read(
            padded[tf.newaxis, :, :, tf.newaxis], tf.stack([mean, deviation])[tf.newaxis]
        )
        return tf.reshape(scores, tf.shape(padded))[:height, :width], features


def _strongest(rows: tf.Tensor, scores: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """The rows of the highest scores, at most `count`, in order."""
    return tf.gather(rows, tf.math.top_k(scores, tf.minimum(count, tf.size(scores))).indices)


def _enlarged(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """An image float32 [H, W] at a larger size, in whole grey values."""
    return tf.round(tf.image.resize(image[..., tf.newaxis], size)[..., 0])


def _shrunk(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """An image float32 [H, W] at its size or about half of it, as by `cv2.INTER_AREA` of bytes.

    Of odd sides OpenCV rounds other sums: about one pixel in a thousand differs by one.
    """
    shape = tf.shape(image)
    for axis in (1, 0):
        pixels, shares = _covered(shape[axis], size[axis])
        ends = [1, 1]
        ends[axis] = -1
        image = sum(
            tf.gather(image, pixels[:, tap], axis=axis) * tf.reshape(shares[:, tap], ends)
            for tap in range(_TAPS)
        )
    halves = tf.reduce_all(shape == 2 * size)
    return tf.where(halves, tf.floor(image + 0.5), tf.round(image))


def _covered(length: tf.Tensor, shorter: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The pixels of a side that each pixel of a shorter one covers, and their shares, [m, taps]."""
    scale = tf.cast(length, tf.float64) / tf.cast(shorter, tf.float64)
    start = tf.cast(tf.range(shorter), tf.float64)[:, tf.newaxis] * scale
    pixels = tf.floor(start) + tf.range(_TAPS, dtype=tf.float64)
    covered = tf.minimum(start + scale, pixels + 1.0) - tf.maximum(start, pixels)
    covered = tf.where(covered > _LEAST_SHARE, covered, 0.0)
    shares = covered / tf.minimum(scale, tf.cast(length, tf.float64) - start)
    return tf.minimum(tf.cast(pixels, tf.int32), length - 1), tf.cast(shares, tf.float32)
