"""One step of dense training: views made on the device, descriptors and scores, update."""

import contextlib
from typing import Any, NamedTuple

import tensorflow as tf

from doap_tf.appearance import PRESETS
from doap_tf.losses import CorrespondenceLoss
from doap_tf.networks import DENSE_PRESETS, DenseNetwork
from doap_tf.training.dense_config import DenseConfig
from doap_tf.training.dense_images import ImagePool
from doap_tf.training.device_views import PointPairs, ViewSettings, make_pairs
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.network_update import NetworkUpdate
from doap_tf.training.strategy import precision


class DenseStep(NetworkUpdate):
    """The network with its optimiser, and the function that updates them.

    Args:
        config: Settings of the run.
        pool: Images to make views of; every device holds them all.
        strategy: Devices; the pairs are divided equally among its replicas, while the list that is
            ranked is that of all pairs.
    """

    def __init__(self, config: DenseConfig, pool: ImagePool, strategy: tf.distribute.Strategy):
        super().__init__(config, strategy)
        self._pool = tf.nest.map_structure(self._copies, pool)
        self._matching = CorrespondenceLoss(
            config.loss,
            "hamming" if self.network.head == "binary" else "euclidean",
            config.bins,
        )
        self._detection = DenseObjective(self.network, config.view_size)
        self._settings = ViewSettings(
            size=config.view_size,
            webcam_share=config.webcam_share if len(pool.webcams) else 0.0,
            appearance=PRESETS[config.appearance],
        )

    def __call__(self, rate: float, step: int) -> dict[str, tf.Tensor]:
        """Updates the network; returns the loss and its parts, scalar tensors.

        Args:
            rate: Learning rate of this step.
            step: Number of this step, which seeds the views and what the objective draws.
        """
        return self._run(self._pool, rate, step, self._config.cost_at(step))

    def _copies(self, values: Any) -> Any:
        """Returns an array on each device."""
        if self._replicas == 1:
            return tf.constant(values)
        return self._strategy.experimental_distribute_values_from_function(
            lambda _: tf.constant(values)
        )

    def _parts(self, values: Any) -> Any:
        return values

    def _make_network(self) -> DenseNetwork:
        return make_dense_network(self._config)

    def _make_optimizer(self) -> tf.keras.optimizers.Optimizer:
        return tf.keras.optimizers.AdamW(weight_decay=self._config.weight_decay)

    def _precision(self) -> contextlib.AbstractContextManager[None]:
        return precision(self._config.precision)

    def _loss_and_gradients(
        self, inputs: ImagePool, seed: tf.Tensor, *scalars: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        (cost,) = scalars
        config = self._config
        for_views, for_places = tf.unstack(tf.random.split(seed, 2), num=2)
        pairs = self._own(
            make_pairs(*inputs, for_views, config.batch_size, config.points, self._settings)
        )
        images = tf.concat([pairs.view1, pairs.view2], 0)[..., tf.newaxis]
        points = tf.concat([pairs.points1, pairs.points2], 0)
        with tf.GradientTape() as tape:
            maps = self._forward(images, training=True)
            rows = self.network.describe(maps.features, points, training=True)
            rows = tf.reshape(rows, [2, -1, rows.shape[-1]])
            matching = self._matching(rows[0], rows[1], tf.reshape(pairs.valid, [-1]))
            views: Any = _FeatureViews.of(pairs, maps.features)
            detection, scores = self._detection(maps.scores[..., 0], views, cost, for_places)
            loss = matching + detection / self._replicas
        variables = [variable.value for variable in self.network.trainable_variables]
        means = {name: score / self._replicas for name, score in scores.items()}
        return {"loss": loss, "descriptor_loss": matching, **means}, tape.gradient(loss, variables)

    def _own(self, pairs: PointPairs) -> PointPairs:
        """Returns this replica's pairs."""
        if self._replicas == 1:
            return pairs
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.nest.map_structure(
            lambda part: tf.reshape(part, [self._replicas, -1, *part.shape[1:]])[number], pairs
        )


class DenseObjective(KeypointObjective):
    """The objective of keypoints, whose places are ranked by the network's own descriptors.

    Instead of pixels the views hold the features that the network made of them. A keypoint costs
    a share of the mean Average Precision of all places: a fixed cost would remove every keypoint
    as long as the descriptor is worth less than that.
    """

    def __init__(self, network: DenseNetwork, size: int):
        super().__init__(network, size)

    def _cost(self, cost: tf.Tensor, *precisions: tf.Tensor) -> tf.Tensor:
        return cost * tf.reduce_mean(tf.stack(precisions))

    def _describe(self, images: Any, places: Any, angles: Any) -> list[tf.Tensor]:
        return [
            self._descriptor.describe(features, points)
            for features, points in zip(images, places, strict=True)
        ]


class _FeatureViews(NamedTuple):
    """Pairs of views as `KeypointObjective` takes them."""

    first: list[tf.Tensor]
    second: list[tf.Tensor]
    first_inside: tf.Tensor
    second_inside: tf.Tensor
    homography: tf.Tensor

    @classmethod
    def of(cls, pairs: PointPairs, features: tuple[tf.Tensor, ...]) -> "_FeatureViews":
        halves = [tf.split(level, 2) for level in features]
        first, second = ([half[side] for half in halves] for side in (0, 1))
        inside1, inside2 = (tf.cast(mask, tf.float32) for mask in (pairs.inside1, pairs.inside2))
        return cls(first, second, inside1, inside2, pairs.homography)


def make_dense_network(config: DenseConfig) -> DenseNetwork:
    """Returns the network of a run, built and freshly initialised."""
    network = DenseNetwork(
        **DENSE_PRESETS[config.network],
        synchronized=config.synchronized_batch_norm,
        name="dense_network",
    )
    network.build((None, None, None, 1))
    return network
