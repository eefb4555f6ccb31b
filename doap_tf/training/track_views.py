"""Pairs of views of two photographs of one scene, whose points come from a reconstruction."""

import tensorflow as tf

from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.training.device_views import (
    BORDER,
    CORNER_WINDOW,
    SCALES,
    PointPairs,
    ViewSettings,
    inverse,
    map_homogeneous,
    random_homographies,
    uniform_index,
    warp,
)
from doap_tf.training.scene_tracks import TrackPairs

_ANCHORS = 4  # points of which that with the most others around it becomes the centre of the views


def make_track_pairs(
    tracks: TrackPairs, seed: tf.Tensor, batch: int, points: int, settings: ViewSettings
) -> PointPairs:
    """Makes pairs of views by random homographies around points that both photographs show.

    As among corners, of points within 3 pixels of one another in either view one is taken.

    Args:
        tracks: Pairs of photographs to draw from, as tensors.
        seed: int32 [2].
        batch: B, number of pairs.
        points: N, number of points of a pair.
        settings: of the views.

    Returns:
        Pairs without changes of appearance; the views are not related by a homography, and
        `homography`, `inside1` and `inside2` are zero.
    """
    source = RandomTensors(seed, batch)
    drawn = source.uniform(0, 1)[:, tf.newaxis] >= tracks.cumulative
    pair = tf.minimum(tf.reduce_sum(tf.cast(drawn, tf.int32), 1), tracks.counts.shape[0] - 1)
    swapped = source.chance(0.5)[:, tf.newaxis]
    numbers, places = tf.gather(tracks.numbers, pair), tf.gather(tracks.points, pair)
    numbers = tf.where(swapped, numbers[:, ::-1], numbers)
    places = tf.where(swapped[..., tf.newaxis, tf.newaxis], places[:, ::-1], places)
    counts = tf.gather(tracks.counts, pair)[:, tf.newaxis]
    known = tf.range(places.shape[2]) < counts
    scales = source.log_uniform(*SCALES)
    anchors = uniform_index(source.uniform(0, 1, _ANCHORS), counts)
    centres = _best_centres(places, known, anchors, scales * settings.size / 2)
    moved = centres[:, 1] + source.uniform(-settings.shift, settings.shift, 2)
    to_images = [
        random_homographies(source, centre, scales, settings) for centre in (centres[:, 0], moved)
    ]
    view1, view2 = (
        warp(tf.gather(tracks.images, numbers[:, side]), to_image, settings.size)
        for side, to_image in enumerate(to_images)
    )
    mapped = [
        map_homogeneous(places[:, side], inverse(to_image))
        for side, to_image in enumerate(to_images)
    ]
    in_views = tf.stack([ends[..., :2] / ends[..., 2:] for ends in mapped], 1)
    ahead = (mapped[0][..., 2] > 0) & (mapped[1][..., 2] > 0)
    inner = (in_views > BORDER) & (in_views < settings.size - 1.0 - BORDER)
    visible = known & ahead & tf.reduce_all(inner, [1, 3])
    index, valid = pick_separate(in_views, visible, source.uniform(0, 1, places.shape[2]), points)
    first, second = tf.unstack(tf.gather(in_views, index, axis=2, batch_dims=1), axis=1)
    noise1, noise2 = tf.unstack(settings.point_noise * source.normal(2, points, 2), axis=1)
    nowhere = tf.zeros([batch, settings.size, settings.size], tf.bool)
    return PointPairs(
        view1,
        view2,
        first + noise1,
        second + noise2,
        valid,
        tf.zeros([batch, 3, 3]),
        nowhere,
        nowhere,
    )


def pick_separate(
    in_views: tf.Tensor, visible: tf.Tensor, priorities: tf.Tensor, count: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Picks the points of highest priority that no visible one of a higher is near to.

    Args:
        in_views: float32 [B, 2, T, 2], positions in both views; near are those within 3 pixels
            along both axes in either.
        visible: bool [B, T].
        priorities: float32 [B, T], above 0.
        count: N.

    Returns:
        Numbers of points, int32 [B, N], and whether they were picked, bool [B, N]: where there are
        fewer than N, other numbers follow.
    """
    values = tf.where(visible, priorities, -1.0)
    apart = tf.abs(in_views[:, :, :, tf.newaxis] - in_views[:, :, tf.newaxis])
    near = tf.reduce_any(tf.reduce_all(apart <= CORNER_WINDOW // 2, -1), 1)
    suppressed = tf.reduce_any(near & (values[:, tf.newaxis] > values[:, :, tf.newaxis]), 2)
    values = tf.where(suppressed, -1.0, values)
    values = tf.pad(values, [[0, 0], [0, max(0, count - values.shape[1])]], constant_values=-1.0)
    highest, index = tf.math.top_k(values, count)
    return tf.minimum(index, in_views.shape[2] - 1), highest >= 0


def _best_centres(
    places: tf.Tensor, known: tf.Tensor, anchors: tf.Tensor, reach: tf.Tensor
) -> tf.Tensor:
    """Returns the anchor with the most points within reach in both images, float32 [B, 2, 2].

    Args:
        places: float32 [B, 2, T, 2].
        known: bool [B, T].
        anchors: int32 [B, A], numbers of points.
        reach: float32 [B].
    """
    centres = tf.gather(places, anchors, axis=2, batch_dims=1)
    apart = tf.abs(places[:, :, tf.newaxis] - centres[:, :, :, tf.newaxis])
    within = apart < tf.reshape(reach, [-1, 1, 1, 1, 1])
    near = tf.reduce_all(within, [1, 4]) & known[:, tf.newaxis]
    best = tf.argmax(tf.reduce_sum(tf.cast(near, tf.int32), 2), 1, tf.int32)
    return tf.gather(centres, best, axis=2, batch_dims=1)
