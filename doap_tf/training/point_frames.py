"""Frames of patches around points that two views show, and the patches, made on the device."""

import math

import numpy as np
import tensorflow as tf

from doap_tf.appearance.random_tensors import RandomTensors

SIDES = (32.0, 128.0)  # of patches in the first view, in pixels
_SIDE_LIMITS = (12.0, 300.0)  # in the second
_REACH = 32.0  # pixels around a point, σ, whose neighbours tell how views are turned and scaled
_ANYWHERE = 1e-3  # weight of neighbours farther away, which count where there are no others
# Errors of detectors: a keypoint knows the level of a pyramid, not its scale; its dominant gradient
# may be another one.
_ANGLE_NOISE, _SCALE_NOISE = 0.15, 0.2
_OTHER_ANGLE = 1 / 8
_LONGEST_STEP = 1.5  # pixels of a level of the pyramid from one pixel of a patch to the next
_LEVELS = 4


def draw_frames(
    source: RandomTensors, points1: tf.Tensor, points2: tf.Tensor, valid: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Draws frames around points of the first views, and those that detectors find in the second.

    Args:
        source: of random numbers.
        points1, points2: float32 [B, N, 2].
        valid: bool [B, N], which points count.

    Returns:
        For both views side and angle of patches, float32 [B, N, 2], in pixels and radians from x
        towards y.
    """
    count = points1.shape[1]
    scale, turn = local_similarities(points1, points2, valid)
    sides = source.log_uniform(*SIDES, count)
    angles = source.uniform(-math.pi, math.pi, count)
    noise = source.normal(2, count)
    others = sides * scale * tf.exp(_SCALE_NOISE * noise[:, 0])
    turned = tf.where(
        source.chance(_OTHER_ANGLE, count),
        source.uniform(-math.pi, math.pi, count),
        angles + turn + _ANGLE_NOISE * noise[:, 1],
    )
    others = tf.clip_by_value(others, *_SIDE_LIMITS)
    return tf.stack([sides, angles], -1), tf.stack([others, turned], -1)


def local_similarities(
    points1: tf.Tensor, points2: tf.Tensor, valid: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """How much larger the surroundings of each point are in the second view, and how turned.

    The similarity is that which maps the other points best, weighted by their nearness; so it is
    known for points of any two photographs.

    Args:
        points1, points2: float32 [B, N, 2].
        valid: bool [B, N], which points count.

    Returns:
        Factors and angles, float32 [B, N].
    """
    apart = tf.reduce_sum((points1[:, :, tf.newaxis] - points1[:, tf.newaxis]) ** 2, -1)
    near = tf.exp(-apart / (2 * _REACH**2)) + _ANYWHERE
    weights = tf.where(valid[:, tf.newaxis], near, 0.0)
    weights = tf.math.divide_no_nan(weights, tf.reduce_sum(weights, 2, keepdims=True))

    def centred(points: tf.Tensor) -> list[tf.Tensor]:
        """x and y [B, N, N] of all points from the mean around each."""
        mean = tf.reduce_sum(weights[..., tf.newaxis] * points[:, tf.newaxis], 2)
        return tf.unstack(points[:, tf.newaxis] - mean[:, :, tf.newaxis], axis=-1)

    def total(values: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(weights * values, 2)

    (x1, y1), (x2, y2) = centred(points1), centred(points2)
    size1, size2 = total(x1**2 + y1**2), total(x2**2 + y2**2)
    known = tf.minimum(size1, size2) > 1e-3  # not of a single point
    scale = tf.where(known, tf.sqrt(tf.math.divide_no_nan(size2, size1)), 1.0)
    return scale, tf.atan2(total(x1 * y2 - y1 * x2), total(x1 * x2 + y1 * y2))


def cut_patches(views: tf.Tensor, points: tf.Tensor, frames: tf.Tensor, size: int) -> tf.Tensor:
    """Cuts patches by bilinear interpolation from views, halved so often that nothing aliases.

    Beyond the border of a view its last pixels are repeated.

    Args:
        views: float32 [B, S, S], S a multiple of 8.
        points: Centres, float32 [B, N, 2].
        frames: Side and angle, float32 [B, N, 2]; see `draw_frames`.
        size: P, side of a patch in its own pixels.

    Returns:
        float32 [B · N, P, P, 1].
    """
    side, angle = tf.unstack(frames[..., tf.newaxis, tf.newaxis, :], axis=-1)
    y, x = np.mgrid[:size, :size].astype(np.float32) + 0.5
    right, down = side * (x / size - 0.5), side * (y / size - 0.5)
    cosine, sine = tf.cos(angle), tf.sin(angle)
    columns = points[..., 0][..., tf.newaxis, tf.newaxis] + cosine * right - sine * down
    rows = points[..., 1][..., tf.newaxis, tf.newaxis] + sine * right + cosine * down

    pixels, widths, starts = _pyramid(views)
    halvings = tf.math.log(side / (size * _LONGEST_STEP)) / math.log(2)
    level = tf.cast(tf.clip_by_value(tf.math.ceil(halvings), 0, _LEVELS - 1), tf.int32)
    width, start = tf.gather(widths, level), tf.gather(starts, level)
    last = tf.cast(width, tf.float32) - 1
    cell = tf.pow(2.0, tf.cast(level, tf.float32))

    def split(positions: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the pixels before positions, and how far beyond them these are."""
        positions = tf.clip_by_value((positions + 0.5) / cell - 0.5, 0, last)
        before = tf.minimum(tf.floor(positions), last - 1)
        return tf.cast(before, tf.int32), positions - before

    (column, x), (row, y) = split(columns), split(rows)
    corner = start + row * width + column

    def at(offset: int | tf.Tensor) -> tf.Tensor:
        return tf.gather(pixels, corner + offset, batch_dims=1)

    upper = at(0) + x * (at(1) - at(0))
    lower = at(width) + x * (at(width + 1) - at(width))
    return tf.reshape(upper + y * (lower - upper), [-1, size, size, 1])


def _pyramid(views: tf.Tensor) -> tuple[tf.Tensor, np.ndarray, np.ndarray]:
    """Returns all levels of views side by side [B, pixels], their sides, and where they start."""
    level, levels = views[..., tf.newaxis], []
    for _ in range(_LEVELS):
        levels.append(level)
        level = tf.nn.avg_pool2d(level, 2, 2, "VALID")
    widths = np.array([each.shape[1] for each in levels], np.int32)
    starts = np.cumsum([0, *widths[:-1] ** 2]).astype(np.int32)
    flat = [tf.reshape(each, [views.shape[0], -1]) for each in levels]
    return tf.concat(flat, 1), widths, starts
