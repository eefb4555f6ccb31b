"""Cutting patches out of an image inside a TensorFlow graph, for models that take whole images.

The prefilter is that of `doap_tf.features.cutting`, which states it: half-octave levels of Gaussian
blur, decimated where the blur allows it. Its numbers are repeated here because that module needs
OpenCV, and machines that train and export may have none. Only ordinary operations are used, so that
any server runs them.
"""

import math

import tensorflow as tf

_BLUR = 0.6  # σ in pixels, of the blur taken to be in the image
_MARGIN = 16  # pixels of repeated border kept around each level
# The last level suits steps of 64 image pixels per patch pixel; longer ones, which need an image
# of more than 2,000 pixels for a single patch of 32, are cut from it too.
_LEVELS = 13


def cut_patches(image: tf.Tensor, frames: tf.Tensor, size: int, magnification: float) -> tf.Tensor:
    """Cuts the squares [−magnification, magnification]² of affine frames.

    Args:
        image: Grey values, float32 [H, W], not empty.
        frames: Row-major 2×3 maps from the unit circle to pixels, float32 [N, 6], finite.
        size: Side S of a patch in pixels.
        magnification: Half the side of a patch over the frame's radius.

    Returns:
        float32 [N, S, S, 1].
    """
    maps = tf.reshape(frames, [-1, 2, 3])
    levels = _levels_of(maps, size, magnification)
    pixels, starts, widths, heights = _pyramid(image, tf.reduce_max(levels))
    scales = tf.pow(2.0, -tf.cast(_grids(levels), tf.float32))
    centers = ((2.0 * tf.range(size, dtype=tf.float32) + 1.0) / size - 1.0) * magnification
    along = maps[:, :, 0, tf.newaxis] * centers  # [N, 2, S]
    across = maps[:, :, 1, tf.newaxis] * centers + maps[:, :, 2, tf.newaxis]
    points = (along[:, :, tf.newaxis, :] + across[:, :, :, tf.newaxis]) * _spread(scales) + _MARGIN

    x = _Axis(points[:, 0], tf.gather(widths, levels))
    y = _Axis(points[:, 1], tf.gather(heights, levels))
    first = tf.gather(starts, levels)[:, tf.newaxis, tf.newaxis]
    row_length = tf.gather(widths, levels)[:, tf.newaxis, tf.newaxis]

    def row(number: tf.Tensor) -> tf.Tensor:
        start = first + number * row_length
        left, right = tf.gather(pixels, start + x.before), tf.gather(pixels, start + x.after)
        return left + (right - left) * x.weight

    above, below = row(y.before), row(y.after)
    return (above + (below - above) * y.weight)[..., tf.newaxis]


class _Axis:
    """The two neighbours of each coordinate [N, S, S] and the second one's weight."""

    def __init__(self, coordinates: tf.Tensor, lengths: tf.Tensor):
        last = lengths[:, tf.newaxis, tf.newaxis] - 1
        coordinates = tf.clip_by_value(coordinates, 0.0, tf.cast(last, tf.float32))
        floor = tf.floor(coordinates)
        self.before = tf.cast(floor, tf.int32)
        self.after = tf.minimum(self.before + 1, last)
        self.weight = coordinates - floor


def _spread(values: tf.Tensor) -> tf.Tensor:
    return values[:, tf.newaxis, tf.newaxis, tf.newaxis]


def _levels_of(maps: tf.Tensor, size: int, magnification: float) -> tf.Tensor:
    """The pyramid level int32 [N] of each map [N, 2, 3], by the step along its longer axis."""
    (a, b), (c, d) = (tf.unstack(row, axis=-1) for row in tf.unstack(maps[:, :, :2], axis=1))
    longer = (tf.sqrt((a + d) ** 2 + (c - b) ** 2) + tf.sqrt((a - d) ** 2 + (c + b) ** 2)) / 2.0
    steps = longer * (2.0 * magnification / size)
    exponents = tf.math.ceil(2.0 / math.log(2.0) * tf.math.log(tf.maximum(steps, 1.0)) - 1e-6)
    return tf.cast(tf.minimum(exponents, _LEVELS - 1.0), tf.int32)


def _grid(level: int) -> int:
    """How many times the image has been halved at a level: its blur spans a pixel of the grid."""
    return max(0, math.floor(math.log2(_BLUR) + level / 2))


def _grids(levels: tf.Tensor) -> tf.Tensor:
    return tf.gather(tf.constant([_grid(level) for level in range(_LEVELS)]), levels)


def _pyramid(
    image: tf.Tensor, last: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """All levels up to `last` as one row of pixels, with each level's start, width and height."""
    level = _repeat_border(image, _MARGIN)
    levels = [level]
    for number in range(1, _LEVELS):
        # Increments of the variance σ² = 0.36·(2^k − 1), in pixels of the grid before.
        sigma = _BLUR * math.sqrt(2.0 ** (number - 1)) / 2 ** _grid(number - 1)
        halve = _grid(number) > _grid(number - 1)
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
    return _repeat_border(blurred[::2, ::2], _MARGIN // 2) if halve else blurred


def _blur(image: tf.Tensor, sigma: float) -> tf.Tensor:
    radius = math.ceil(4.0 * sigma)
    offsets = range(-radius, radius + 1)
    weights = [math.exp(-0.5 * (offset / sigma) ** 2) for offset in offsets]
    kernel = tf.constant(weights) / math.fsum(weights)
    padded = _repeat_border(image, radius)[tf.newaxis, :, :, tf.newaxis]
    for shape in ([1, -1, 1, 1], [-1, 1, 1, 1]):
        padded = tf.nn.conv2d(padded, tf.reshape(kernel, shape), strides=1, padding="VALID")
    return padded[0, :, :, 0]


def _repeat_border(image: tf.Tensor, width: int) -> tf.Tensor:
    for axis in (0, 1):
        length = tf.shape(image)[axis]
        rows = tf.clip_by_value(tf.range(-width, length + width), 0, length - 1)
        image = tf.gather(image, rows, axis=axis)
    return image
