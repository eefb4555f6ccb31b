"""One step of dense training: views made on the device, descriptors and scores, update."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from doap_tf.appearance import PRESETS
from doap_tf.appearance.random_tensors import split_seed
from doap_tf.losses import CorrespondenceLoss
from doap_tf.networks import DENSE_PRESETS, DenseNetwork
from doap_tf.training.dense_config import DenseConfig
from doap_tf.training.dense_images import ImagePool
from doap_tf.training.device_views import PointPairs, ViewSettings, make_pairs
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.network_update import NetworkUpdate
from doap_tf.training.scene_tracks import TrackPairs
from doap_tf.training.strategy import precision
from doap_tf.training.track_views import make_track_pairs


class DenseStep(NetworkUpdate):
    """The network with its optimiser, and the function that updates them.

    XLA compiles the views and the objectives, not the convolutions, whose kernels it would try out
    for minutes before the first step.

    Args:
        config: Settings of the run.
        pool: Images to make views of; every device holds them all.
        strategy: Devices; the pairs are divided equally among its replicas, while the list that is
            ranked is that of all pairs.
        tracks: Pairs of photographs to make more views of; they train descriptors only, as scores
            need to know where every pixel goes.
        initial: Networks to start from; see `start_from`.
    """

    def __init__(
        self,
        config: DenseConfig,
        pool: ImagePool,
        strategy: tf.distribute.Strategy | None = None,
        tracks: TrackPairs | None = None,
        initial: Sequence[tf.keras.Model] = (),
    ):
        super().__init__(config, strategy, in_parts=True, initial=initial)
        self._inputs = tf.nest.map_structure(self._copies, (pool, tracks or ()))
        tracked = int(config.batch_size * config.track_share) if tracks else 0
        self._tracked = tracked // self._replicas * self._replicas
        distance = "hamming" if self.network.head == "binary" else config.distance
        self._matching: Callable = CorrespondenceLoss(config.loss, distance, config.bins)
        self._detection: Callable = DenseObjective(self.network, config.view_size)
        self._settings = ViewSettings(
            size=config.view_size,
            webcam_share=config.webcam_share if len(pool.webcams) else 0.0,
            appearance=PRESETS[config.appearance],
        )
        self._make_views: Callable = self._views
        if config.xla:
            self._make_views = tf.function(self._views, jit_compile=True)
        if config.xla and self._replicas == 1:
            self._matching = tf.function(self._matching, jit_compile=True)
            self._detection = tf.function(self._detection, jit_compile=True)

    def __call__(self, rate: float, step: int) -> dict[str, tf.Tensor]:
        """Updates the network; returns the loss and its parts, scalar tensors.

        Args:
            rate: Learning rate of this step.
            step: Number of this step, which seeds the views and what the objective draws.
        """
        return self._run(self._inputs, rate, step, self._config.cost_at(step))

    def _copies(self, values: Any) -> Any:
        """Returns an array on each device."""
        if self._replicas == 1:
            return tf.constant(values)
        return self.strategy.experimental_distribute_values_from_function(
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
        self, inputs: tuple[ImagePool, Any], seed: tf.Tensor, *scalars: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        (cost,) = scalars
        config = self._config
        for_views, for_places = tf.unstack(tf.random.split(seed, 2), num=2)
        pairs = self._of_replica(self._make_views(inputs, for_views))
        planar = config.batch_size - self._tracked
        images = tf.concat([pairs.view1, pairs.view2], 0)[..., tf.newaxis]
        points = tf.concat([pairs.points1, pairs.points2], 0)
        with tf.GradientTape() as tape:
            maps = self._forward(images, training=True)
            rows = self.network.describe(maps.features, points, training=True)
            first, second = tf.unstack(tf.reshape(rows, [2, -1, rows.shape[-1]]))
            matching = self._matching(first, second, tf.reshape(pairs.valid, [-1]))
            planar_maps = tf.nest.map_structure(
                lambda both: _first_of_halves(both, planar // self._replicas), maps
            )
            views: Any = _FeatureViews.of(pairs, planar_maps.features)
            logits = planar_maps.scores[..., 0]
            detection, scores = self._detection(logits, views, cost, for_places)
            loss = matching + detection / self._replicas
        variables = [variable.value for variable in self.network.trainable_variables]
        means = {name: score / self._replicas for name, score in scores.items()}
        return {"loss": loss, "descriptor_loss": matching, **means}, tape.gradient(loss, variables)

    def _views(self, inputs: tuple[ImagePool, Any], seed: tf.Tensor) -> PointPairs:
        """Makes the pairs of a step, those with a homography first."""
        pool, tracks = inputs
        config, others = self._config, None
        if self._tracked:
            seed, for_tracks = split_seed(seed, 2)
            others = make_track_pairs(
                tracks, for_tracks, self._tracked, config.points, self._settings
            )
        planar = config.batch_size - self._tracked
        return make_pairs(*pool, seed, planar, config.points, self._settings, others)

    def _of_replica(self, pairs: PointPairs) -> PointPairs:
        """Returns this replica's pairs, first of those with a homography and then of tracks."""
        if self._replicas == 1:
            return pairs
        number = tf.distribute.get_replica_context().replica_id_in_sync_group
        planar = self._config.batch_size - self._tracked

        def own(values: tf.Tensor) -> tf.Tensor:
            kinds = (values[:planar], values[planar:])
            parts = [tf.split(kind, self._replicas) for kind in kinds]
            return tf.concat([tf.stack(part)[number] for part in parts], 0)

        return tf.nest.map_structure(own, pairs)


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
        count = first[0].shape[0]
        inside1, inside2 = (
            tf.cast(mask[:count], tf.float32) for mask in (pairs.inside1, pairs.inside2)
        )
        return cls(first, second, inside1, inside2, pairs.homography[:count])


def _first_of_halves(values: tf.Tensor, count: int) -> tf.Tensor:
    """Returns the first rows of the first and of the second views."""
    return tf.concat([half[:count] for half in tf.split(values, 2)], 0)


def make_dense_network(config: DenseConfig) -> DenseNetwork:
    """Returns the network of a run, built and freshly initialised."""
    network = DenseNetwork(
        **DENSE_PRESETS[config.network],
        synchronized=config.synchronized_batch_norm,
        name="dense_network",
    )
    network.build((None, None, None, 1))
    return network
