"""What keypoints are trained for: to be detected again in another view and matched there."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from doap_tf.networks import DescriptorNetwork, KeypointNetwork
from doap_tf.training.device_views import inverse, map_points

if TYPE_CHECKING:
    from doap_tf.patch_generation.view_pairs import Views
from doap_tf.training.keypoint_config import CELL

# Share of a keypoint that is repeated so many pixels away.
_NEAR = np.array(
    [
        [0.1, 0.3, 0.4, 0.3, 0.1],
        [0.3, 0.8, 1.0, 0.8, 0.3],
        [0.4, 1.0, 1.0, 1.0, 0.4],
        [0.3, 0.8, 1.0, 0.8, 0.3],
        [0.1, 0.3, 0.4, 0.3, 0.1],
    ],
    np.float32,
)
_PLACE_NOISE, _ANGLE_NOISE = 0.7, 0.17  # pixels and radians, of the counterpart's patch
_SAME_PLACE = 6.0  # pixels within which two places do not compete
_BORDER = 4  # pixels from the edge of the photograph in which keypoints do not count


class KeypointObjective:
    """The expected gain of the keypoints of pairs of views.

    In every cell of 8×8 pixels the scores are a distribution of one keypoint, the softmax, which is
    there at all with the sigmoid of its score. A keypoint gains the probability that the other view
    has one within about two pixels of its counterpart, times the Average Precision of its place:
    how early the descriptor, asked for a place drawn from the cell among those of all the others,
    ranks its counterpart. Every keypoint costs a constant.

    Args:
        descriptor: Ranks the places; it is not trained.
        size: Side of the views, a multiple of 8.

    Call arguments:
        logits: Scores of the first views and below them of the second ones, float32 [2B, S, S].
        views: Pairs; all parts float32.
        cost: Of a keypoint, a scalar.
        seed: int32 [2]. Under a strategy replicas draw different numbers from it, those that one
            device would draw for their pairs.

    Returns:
        The loss, a scalar: the negative gain per cell and pair, and scores by name.
    """

    def __init__(self, descriptor: DescriptorNetwork, size: int):
        self._descriptor, self._size = descriptor, size
        x, y = np.meshgrid(np.arange(size, dtype=np.float32), np.arange(size, dtype=np.float32))
        self._grid = np.stack([x, y], -1).reshape(1, -1, 2)

    def __call__(
        self, logits: tf.Tensor, views: "Views", cost: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        one, two = tf.split(logits, 2)
        there, back = views.homography, inverse(views.homography)
        seeds = tf.unstack(tf.random.split(seed, 2), num=2)
        precision1 = self._average_precision(views.first, views.second, there, one, seeds[0])
        precision2 = self._average_precision(views.second, views.first, back, two, seeds[1])
        cost = self._cost(cost, precision1, precision2)
        keypoints1, keypoints2 = self._keypoints(one), self._keypoints(two)
        inside = _eroded(views.first_inside), _eroded(views.second_inside)
        gain1, share1, repeated = self._gain(
            keypoints1, keypoints2, *inside, there, precision1, cost
        )
        gain2, _, _ = self._gain(keypoints2, keypoints1, *inside[::-1], back, precision2, cost)
        cells = (self._size // CELL) ** 2
        loss = -tf.reduce_mean(gain1 + gain2) / cells
        return loss, {
            "keypoints_per_cell": tf.reduce_mean(share1) / cells,
            "repeated": tf.math.divide_no_nan(tf.reduce_sum(repeated), tf.reduce_sum(share1)),
            "average_precision": tf.reduce_mean(precision1),
        }

    def _cost(self, cost: tf.Tensor, *precisions: tf.Tensor) -> tf.Tensor:
        """Cost of a keypoint, where the places of both views have such Average Precisions."""
        return cost

    def _keypoints(self, logits: tf.Tensor) -> tf.Tensor:
        """Probability [B, S, S] of a keypoint at each pixel."""
        cells = _to_cells(logits)
        return _from_cells(tf.nn.softmax(cells) * tf.sigmoid(cells), self._size)

    def _gain(
        self,
        keypoints: tf.Tensor,
        others: tf.Tensor,
        inside: tf.Tensor,
        others_inside: tf.Tensor,
        homography: tf.Tensor,
        precision: tf.Tensor,
        cost: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        """Gain of the keypoints that both views show, their number, and how many repeat: [B]."""
        shape = keypoints.shape
        there = map_points(self._grid, homography)
        visible = tf.reduce_all((there >= 2) & (there <= self._size - 3), -1)
        seen = tf.cast(visible, tf.float32) * _sample(others_inside, there)
        seen = tf.reshape(seen, shape) * inside
        near = tf.nn.conv2d(others[..., None], _NEAR[..., None, None], 1, "SAME")[..., 0]
        repeated = tf.reshape(_sample(near, there), shape)
        weight = _from_cells(tf.repeat(precision[..., None], CELL**2, -1), self._size)
        return tuple(
            tf.reduce_sum(seen * keypoints * value, [1, 2])
            for value in (weight * repeated - cost, 1.0, repeated)
        )

    def _average_precision(
        self,
        first: Any,
        second: Any,
        homography: tf.Tensor,
        logits: tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Of a place drawn from each cell of the first views: [B, cells]."""
        seeds = tf.unstack(tf.random.split(seed, 3), num=3)
        places = self._draw(logits, seeds[0])
        batch, count = places.shape[:2]
        angle = np.pi * _draw_for_replica(
            tf.random.stateless_uniform, [batch, count], seeds[1], -1, 1
        )
        noise = _draw_for_replica(tf.random.stateless_normal, [batch, count, 3], seeds[2])
        there = map_points(places, homography)
        turned = angle + _turn(homography, places) + _ANGLE_NOISE * noise[..., 2]
        moved = there + _PLACE_NOISE * noise[..., :2]
        queries, database = self._describe((first, second), (places, moved), (angle, turned))
        visible = tf.reduce_all((there > 0) & (there < self._size - 1), -1)
        return tf.stop_gradient(rank_precision(queries, database, there, visible))

    def _describe(
        self, images: tuple[Any, Any], places: tuple[tf.Tensor, ...], angles: tuple[tf.Tensor, ...]
    ) -> list[tf.Tensor]:
        """Descriptors [B, N, D] of places in the first and in the second views."""
        patches = [self._patches(*view) for view in zip(images, places, angles, strict=True)]
        rows = tf.cast(self._descriptor(tf.concat(patches, 0), training=False), tf.float32)
        return tf.unstack(tf.reshape(rows, [2, *places[0].shape[:2], -1]))

    def _draw(self, logits: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """One pixel of each cell by its probability: x, y [B, cells, 2]."""
        cells = _to_cells(logits)
        uniform = _draw_for_replica(tf.random.stateless_uniform, cells.shape, seed, 1e-6, 1 - 1e-6)
        pixel = tf.argmax(cells - tf.math.log(-tf.math.log(uniform)), -1, output_type=tf.int32)
        cell, side = tf.range(cells.shape[1])[None], self._size // CELL
        x = cell % side * CELL + pixel % CELL
        y = cell // side * CELL + pixel // CELL
        return tf.cast(tf.stack([x, y], -1), tf.float32)

    def _patches(self, images: tf.Tensor, places: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
        """Patches [B · N, P, P, 1] as they are cut at keypoints."""
        side = self._descriptor.input_size
        half = self._descriptor.magnification * KeypointNetwork.radius
        steps = ((tf.range(side, dtype=tf.float32) + 0.5) * 2 / side - 1) * half
        x, y = (tf.reshape(axis, [1, 1, -1]) for axis in tf.meshgrid(steps, steps))
        cosine, sine = tf.cos(angle)[..., None], tf.sin(angle)[..., None]
        points = tf.stack(
            [places[..., :1] + cosine * x - sine * y, places[..., 1:] + sine * x + cosine * y], -1
        )
        batch, count = places.shape[:2]
        values = _sample(images, tf.reshape(points, [batch, count * side**2, 2]))
        return tf.reshape(values, [batch * count, side, side, 1])


def rank_precision(
    queries: tf.Tensor, database: tf.Tensor, places: tf.Tensor, visible: tf.Tensor
) -> tf.Tensor:
    """Average Precision of lists with one positive, the row of the query's number: [B, N].

    Args:
        queries, database: Descriptors [B, N, D], compared by their inner products.
        places: Of the database in its view, x, y [B, N, 2]; those beside the positive's do not
            compete with it.
        visible: bool [B, N], which rows of the database compete with others.
    """
    similarity = tf.matmul(queries, database, transpose_b=True)
    own = tf.linalg.diag_part(similarity)[..., None]
    squared = tf.reduce_sum((places[:, :, None] - places[:, None]) ** 2, -1)
    ahead = (similarity > own) & (squared > _SAME_PLACE**2) & visible[:, None]
    # With a single positive, Average Precision is the inverse of its rank.
    return 1 / (1 + tf.reduce_sum(tf.cast(ahead, tf.float32), -1))


def _draw_for_replica(
    draw: Callable[..., tf.Tensor], shape: Sequence[int], seed: tf.Tensor, *limits: float
) -> tf.Tensor:
    """Draws numbers for the pairs of all replicas and returns this replica's [B, …]."""
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    drawn = draw([shape[0] * replicas, *shape[1:]], seed, *limits)
    if replicas == 1:
        return drawn
    first = tf.distribute.get_replica_context().replica_id_in_sync_group * shape[0]
    return drawn[first : first + shape[0]]


def _turn(homography: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """The rotation nearest to the homography's derivative at points: angles [B, N]."""
    along, across = (
        map_points(points + step, homography) - map_points(points - step, homography)
        for step in (tf.constant([1.0, 0.0]), tf.constant([0.0, 1.0]))
    )
    return tf.atan2(along[..., 1] - across[..., 0], along[..., 0] + across[..., 1])


def _sample(images: tf.Tensor, points: tf.Tensor) -> tf.Tensor:
    """Bilinear values [B, N] of images [B, S, S], whose border is repeated."""
    size = images.shape[1]
    points = tf.clip_by_value(points, 0.0, size - 1.001)
    corner = tf.floor(points)
    right, down = tf.unstack(points - corner, axis=-1)
    index = tf.cast(corner[..., 1] * size + corner[..., 0], tf.int32)
    flat = tf.reshape(images, [images.shape[0], size * size])
    at = [tf.gather(flat, index + step, batch_dims=1) for step in (0, 1, size, size + 1)]
    above, below = at[0] * (1 - right) + at[1] * right, at[2] * (1 - right) + at[3] * right
    return above * (1 - down) + below * down


def _to_cells(pixels: tf.Tensor) -> tf.Tensor:
    """[B, S, S] → [B, cells, 64]."""
    batch, side = pixels.shape[0], pixels.shape[1] // CELL
    cells = tf.reshape(pixels, [batch, side, CELL, side, CELL])
    return tf.reshape(tf.transpose(cells, [0, 1, 3, 2, 4]), [batch, side**2, CELL**2])


def _from_cells(cells: tf.Tensor, size: int) -> tf.Tensor:
    batch, side = cells.shape[0], size // CELL
    pixels = tf.reshape(cells, [batch, side, side, CELL, CELL])
    return tf.reshape(tf.transpose(pixels, [0, 1, 3, 2, 4]), [batch, size, size])


def _eroded(inside: tf.Tensor) -> tf.Tensor:
    return -tf.nn.max_pool2d(-inside[..., None], 2 * _BORDER + 1, 1, "SAME")[..., 0]
