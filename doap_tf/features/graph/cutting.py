"""Cutting patches out of an image inside a TensorFlow graph: the twin of `features.cutting`."""

import math

import numpy as np
import tensorflow as tf

from doap_tf.features.pyramid_levels import MARGIN, added_sigma, halvings, longest_step

# The last level suits steps of 64 image pixels per patch pixel; longer ones, which need an image
# of more than 2,000 pixels for a single patch of 32, are cut from it too.
_LEVELS = 13
_BLOCK = 32  # pixels of a row that are blurred at once


def cut_patches(image: tf.Tensor, frames: tf.Tensor, size: int, magnification: float) -> tf.Tensor:
    """Cuts the squares [−magnification, magnification]² of affine frames.

    Args:
        image: Grey values, float32 [H, W], not empty.
        frames: Row-major 2×3 maps from the unit circle to pixels, float32 [N, 6], finite.
        size: Side S of a patch in pixels.
        magnification: Half the side of a patch over the frame's radius.

    Returns:
        float32 [N, S, S].
    """
    longest = tf.reduce_max(_longer_axes(tf.reshape(frames, [-1, 2, 3])))
    return GraphPyramid(image, longest * (2.0 * magnification / size)).cut(
        frames, size, magnification
    )


class GraphPyramid:
    """The levels of one image that patches are cut from.

    Args:
        image: Grey values, float32 [H, W], not empty.
        longest_step: Most pixels of the image from one pixel of a patch to the next.
    """

    def __init__(self, image: tf.Tensor, longest_step: tf.Tensor):
        last = _levels_of(longest_step[tf.newaxis])[0]
        self._pixels, self._starts, self._widths, self._heights = _pyramid(image, last)

    def cut(self, frames: tf.Tensor, size: int, magnification: float) -> tf.Tensor:
        """Cuts patches float32 [N, size, size]; see `cut_patches`."""
        maps = tf.reshape(frames, [-1, 2, 3])
        levels = _levels_of(_longer_axes(maps) * (2.0 * magnification / size))
        scales = tf.gather([2.0 ** -halvings(level) for level in range(_LEVELS)], levels)
        centres = ((2.0 * tf.range(size, dtype=tf.float32) + 1.0) / size - 1.0) * magnification
        along = maps[:, :, 0, tf.newaxis] * centres  # [N, 2, S]
        across = maps[:, :, 1, tf.newaxis] * centres + maps[:, :, 2, tf.newaxis]
        points = along[:, :, tf.newaxis, :] + across[:, :, :, tf.newaxis]
        points = points * scales[:, tf.newaxis, tf.newaxis, tf.newaxis] + MARGIN

        widths = tf.gather(self._widths, levels)
        x = _Axis(points[:, 0], widths)
        y = _Axis(points[:, 1], tf.gather(self._heights, levels))
        first = tf.gather(self._starts, levels)[:, tf.newaxis, tf.newaxis]
        row_length = widths[:, tf.newaxis, tf.newaxis]

        def row(number: tf.Tensor) -> tf.Tensor:
            start = first + number * row_length
            left = tf.gather(self._pixels, start + x.before)
            right = tf.gather(self._pixels, start + x.after)
            return left + (right - left) * x.weight

        above, below = row(y.before), row(y.after)
        return above + (below - above) * y.weight


class _Axis:
    """The two neighbours of each coordinate [N, S, S] and the weight of the second one."""

    def __init__(self, coordinates: tf.Tensor, lengths: tf.Tensor):
        last = lengths[:, tf.newaxis, tf.newaxis] - 1
        coordinates = tf.clip_by_value(coordinates, 0.0, tf.cast(last, tf.float32))
        floor = tf.floor(coordinates)
        self.before = tf.cast(floor, tf.int32)
        self.after = tf.minimum(self.before + 1, last)
        self.weight = coordinates - floor


def _longer_axes(maps: tf.Tensor) -> tf.Tensor:
    """The longer semi-axis [N] of each map [N, 2, 3]."""
    (a, b), (c, d) = (tf.unstack(row, axis=-1) for row in tf.unstack(maps[:, :, :2], axis=1))
    return (tf.sqrt((a + d) ** 2 + (c - b) ** 2) + tf.sqrt((a - d) ** 2 + (c + b) ** 2)) / 2.0


def _levels_of(steps: tf.Tensor) -> tf.Tensor:
    """The level int32 [N] for each number of image pixels per patch pixel [N]."""
    bounds = tf.constant([longest_step(level) for level in range(_LEVELS - 1)], tf.float32)
    return tf.searchsorted(bounds, steps)


@tf.function(  # traced once, whatever number of signatures and models use it
    input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32)],
    autograph=False,
)
def _pyramid(
    image: tf.Tensor, last: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """All levels up to `last` as one row of pixels, with each level's start, width and height."""
    level = _repeat_border(image, MARGIN)
    levels = [level]
    for number in range(1, _LEVELS):
        sigma, halve = added_sigma(number), halvings(number) > halvings(number - 1)
        level = tf.cond(
            number <= last,
            lambda level=level, sigma=sigma, halve=halve: _next_level(level, sigma, halve),
            lambda: tf.zeros([1, 1]),
        )
        levels.append(level)
    heights, widths = tf.unstack(tf.stack([tf.shape(level) for level in levels]), axis=1)
    starts = tf.cumsum(heights * widths, exclusive=True)
    return tf.concat([tf.reshape(level, [-1]) for level in levels], 0), starts, widths, heights


def _next_level(level: tf.Tensor, sigma: float, halve: bool) -> tf.Tensor:
    blurred = _blur(level, sigma)
    return _repeat_border(blurred[::2, ::2], MARGIN // 2) if halve else blurred


def _blur(image: tf.Tensor, sigma: float) -> tf.Tensor:
    """Blurs by products of blocks with a matrix: five times as fast as a convolution on CPUs."""
    radius = math.ceil(4.0 * sigma)
    offsets = np.arange(_BLOCK + 2 * radius)[:, np.newaxis] - radius - np.arange(_BLOCK)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2) * (np.abs(offsets) <= radius)
    matrix = tf.constant(weights / weights.sum(axis=0), tf.float32)
    for _ in range(2):  # along rows, then along columns
        height, width = tf.unstack(tf.shape(image))
        starts = _BLOCK * tf.range(-(-width // _BLOCK))
        columns = starts[:, tf.newaxis] + tf.range(-radius, _BLOCK + radius)
        blocks = tf.gather(image, tf.clip_by_value(columns, 0, width - 1), axis=1)
        image = tf.transpose(tf.reshape(blocks @ matrix, [height, -1])[:, :width])
    return image


def _repeat_border(image: tf.Tensor, width: int) -> tf.Tensor:
    for axis in (0, 1):
        length = tf.shape(image)[axis]
        rows = tf.clip_by_value(tf.range(-width, length + width), 0, length - 1)
        image = tf.gather(image, rows, axis=axis)
    return image
