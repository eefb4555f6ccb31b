"""Matching accuracy on pairs of views of held-out images, by which dense networks are chosen."""

import numpy as np
import tensorflow as tf

from doap_tf.appearance import PRESETS
from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.networks import DenseNetwork
from doap_tf.training.dense_config import DenseConfig
from doap_tf.training.dense_images import ImagePool
from doap_tf.training.device_views import PointPairs, ViewSettings, make_pairs, map_points

_BATCHES = 6
_RIGHT = 3.0  # pixels from its counterpart within which a match is right
_BORDER = 8  # pixels in which there are no keypoints
_WINDOW = 5  # side of the window in which a keypoint has the highest score
_LAMPS = 6
_HAZE = 200.0  # grey value of fog


class DenseValidation:
    """Shares of right matches, on pairs that stay the same.

    One view of a held-out photograph is changed by night, fog or local equalisation, none of which
    is trained with; two images of a held-out webcam are what they are.

    Args:
        config: Settings of the run; six batches of its size are made of each kind.
        pool: Images that are never trained on.
    """

    def __init__(self, config: DenseConfig, pool: ImagePool):
        self._config = config
        kinds = {"photos": 0.0} | ({"webcams": 1.0} if len(pool.webcams) else {})
        self._batches = {
            kind: [self._make(pool, tf.constant([99, n]), share) for n in range(_BATCHES)]
            for kind, share in kinds.items()
        }
        self._score = tf.function(self._score_batch)

    def evaluate(self, network: DenseNetwork) -> dict[str, float]:
        """Computes accuracies in [0, 1].

        Returns:
            For each kind of pairs `KIND_corners`, the share of given corners whose nearest row of
            all pairs of a batch is right, and `KIND_keypoints`, the share of the network's own
            keypoints in the first view, of those that the second shows, whose mutual nearest
            neighbour in it is right within 3 pixels; and `accuracy`, the mean of all.
        """
        scores: dict[str, float] = {}
        for kind, batches in self._batches.items():
            results = [self._score(network, pairs) for pairs in batches]
            for name in results[0]:
                scores[f"{kind}_{name}"] = float(np.mean([one[name] for one in results]))
        return {**scores, "accuracy": float(np.mean(list(scores.values())))}

    def _make(self, pool: ImagePool, seed: tf.Tensor, webcam_share: float) -> PointPairs:
        config = self._config
        settings = ViewSettings(
            size=config.view_size, webcam_share=webcam_share, appearance=PRESETS["camera"]
        )
        photos, webcams, cameras = map(tf.convert_to_tensor, pool)
        pairs = make_pairs(
            photos, webcams, cameras, seed, config.batch_size, config.points, settings
        )
        if webcam_share:
            return pairs
        return pairs._replace(view2=_unseen_changes(pairs.view2, seed))

    def _score_batch(self, network: DenseNetwork, pairs: PointPairs) -> dict[str, tf.Tensor]:
        images = tf.concat([pairs.view1, pairs.view2], 0)[..., tf.newaxis]
        scores, features = network(images)
        corners = network.describe(features, tf.concat([pairs.points1, pairs.points2], 0))
        points, strong = _keypoints(
            scores[..., 0], tf.concat([pairs.inside1, pairs.inside2], 0), self._config.points
        )
        keypoints = network.describe(features, points)
        return {
            "corners": _nearest_accuracy(corners, pairs.valid),
            "keypoints": _matching_score(keypoints, points, strong, pairs),
        }


def _nearest_accuracy(rows: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
    first, second = tf.unstack(tf.reshape(rows, [2, -1, rows.shape[-1]]))
    nearest = tf.argmax(tf.matmul(first, second, transpose_b=True), 1, tf.int32)
    right = (nearest == tf.range(nearest.shape[0])) & tf.reshape(valid, [-1])
    return _ratio(right, valid)


def _keypoints(scores: tf.Tensor, inside: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the highest maxima of scores [B, S, S], x, y [B, N, 2], and whether they are ones."""
    size = scores.shape[1]
    highest = tf.nn.max_pool2d(scores[..., tf.newaxis], _WINDOW, 1, "SAME")[..., 0]
    inner = np.pad(np.ones([size - 2 * _BORDER] * 2, bool), _BORDER)
    peaks = tf.where((scores == highest) & inside & inner, scores, scores.dtype.min)
    values, index = tf.math.top_k(tf.reshape(peaks, [-1, size * size]), count)
    points = tf.cast(tf.stack([index % size, index // size], -1), tf.float32)
    return points, values > scores.dtype.min


def _matching_score(
    rows: tf.Tensor, points: tf.Tensor, strong: tf.Tensor, pairs: PointPairs
) -> tf.Tensor:
    (rows1, rows2), (points1, points2), (strong1, strong2) = (
        tf.split(part, 2) for part in (rows, points, strong)
    )
    similarity = tf.matmul(rows1, rows2, transpose_b=True)
    possible = strong1[:, :, tf.newaxis] & strong2[:, tf.newaxis]
    similarity = tf.where(possible, similarity, similarity.dtype.min)
    nearest = tf.argmax(similarity, 2, tf.int32)
    back = tf.gather(tf.argmax(similarity, 1, tf.int32), nearest, batch_dims=1)
    there = map_points(points1, pairs.homography)
    missed = tf.norm(there - tf.gather(points2, nearest, batch_dims=1), axis=-1)
    right = (back == tf.range(back.shape[1])) & (missed <= _RIGHT) & strong1
    limit = pairs.view2.shape[1] - 1.0 - _BORDER
    shown = tf.reduce_all((there > _BORDER) & (there < limit), -1) & strong1
    return _ratio(right & shown, shown)


def _ratio(right: tf.Tensor, counted: tf.Tensor) -> tf.Tensor:
    right, counted = (tf.reduce_sum(tf.cast(mask, tf.float32)) for mask in (right, counted))
    return tf.math.divide_no_nan(right, counted)


def _unseen_changes(views: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Changes views [B, S, S] by night with lamps, local equalisation or fog."""
    batch, size = views.shape[:2]
    source = RandomTensors(seed, batch)
    x, y = np.meshgrid(*[np.arange(size, dtype=np.float32)] * 2)

    def number(low: float, high: float) -> tf.Tensor:
        return source.uniform(low, high, 1, 1)

    light: tf.Tensor = 0.25
    for _ in range(_LAMPS):
        across, down, radius = number(0, size), number(0, size), number(8, 40)
        light += tf.exp(-((x - across) ** 2 + (y - down) ** 2) / (2 * radius**2))
    night = 255 * (views / 255) ** number(1.5, 3) * light + 8 * source.normal(size, size)
    mean, squares = (_window_mean(values) for values in (views, views**2))
    local = 128 + 45 * (views - mean) / (tf.sqrt(tf.maximum(squares - mean**2, 0.0)) + 6)
    clear = tf.exp(-number(0.5, 2.5) * (1 - y / size))
    fog = views * clear + _HAZE * (1 - clear)
    kind = number(0, 3)
    changed = tf.where(kind < 1, night, tf.where(kind < 2, local, fog))
    return tf.clip_by_value(changed, 0.0, 255.0)


def _window_mean(values: tf.Tensor) -> tf.Tensor:
    return tf.nn.avg_pool2d(values[..., tf.newaxis], 41, 1, "SAME")[..., 0]
