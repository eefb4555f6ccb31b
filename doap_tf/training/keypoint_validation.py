"""Scores of keypoints on pairs of views of held-out photographs, by which networks are chosen."""

import numpy as np
import tensorflow as tf

from doap_tf.drawing.keypoints import draw_keypoints
from doap_tf.features.graph import contrast_map
from doap_tf.networks import KeypointNetwork
from doap_tf.patch_generation.view_pairs import ViewPairs, Views
from doap_tf.training.keypoint_config import KeypointConfig
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.keypoint_step import score_views

_BATCHES = 8
_PICTURES = 3
_PICTURED_KEYPOINTS = 150


class KeypointValidation:
    """The objective, at the final cost of a keypoint, on pairs that stay the same.

    Args:
        pairs: Of photographs that are never trained on.
        objective: As in training.
        config: Settings of the run; eight batches of its size are scored.
    """

    def __init__(self, pairs: ViewPairs, objective: KeypointObjective, config: KeypointConfig):
        self.pairs = pairs
        self._objective = objective
        self._config = config
        self._batches = [pairs.batch(number, config.batch_size) for number in range(_BATCHES)]
        self._score = tf.function(self._score_batch, jit_compile=config.xla)

    def evaluate(self, network: KeypointNetwork) -> dict[str, float]:
        """Computes the gain, the negative loss, and the scores of the objective."""
        results = [
            self._score(network, views, tf.constant([self._config.seed, number], tf.int32))
            for number, views in enumerate(self._batches)
        ]
        return {name: float(np.mean([one[name] for one in results])) for name in results[0]}

    def _score_batch(
        self, network: KeypointNetwork, views: Views, seed: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        cost = tf.constant(self._config.keypoint_cost, tf.float32)
        loss, scores = score_views(network, self._objective, views, cost, seed)
        return {"gain": -loss, **scores}

    def draw(self, network: KeypointNetwork) -> np.ndarray:
        """Draws the strongest keypoints on both views of some pairs, BGR [H, W, 3]."""
        rows = []
        for number in range(min(_PICTURES, self._config.batch_size)):
            one, two, _, _, homography = (part[number] for part in self._batches[0])
            points1, points2 = (_strongest(network, view) for view in (one, two))
            rows.append(draw_keypoints(one, two, points1, points2, homography))
        return np.concatenate(rows)


def _strongest(network: KeypointNetwork, view: np.ndarray) -> np.ndarray:
    """Returns x, y [N, 2] of the highest maxima of the scores."""
    image = view[np.newaxis, ..., np.newaxis].astype(np.float32)
    factor, offset = contrast_map(image)
    scores = network(factor * image + offset)
    peaks = tf.where(scores == tf.nn.max_pool2d(scores, 5, 1, "SAME"), scores, -np.inf)
    peaks = peaks.numpy()[0, ..., 0]
    order = np.argsort(-peaks, axis=None, kind="stable")[:_PICTURED_KEYPOINTS]
    y, x = np.unravel_index(order[np.isfinite(peaks.flat[order])], peaks.shape)
    return np.stack([x, y], axis=1)
