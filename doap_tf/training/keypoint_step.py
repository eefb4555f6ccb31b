"""One step of keypoint training: scores of both views, the objective, gradients, update."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from doap_tf.features.graph import contrast_map
from doap_tf.networks import KeypointNetwork
from doap_tf.patch_generation.view_pairs import Views
from doap_tf.training.keypoint_config import KeypointConfig
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.network_update import NetworkUpdate


class KeypointStep(NetworkUpdate):
    """The network with its optimiser, and the function that updates them.

    The network computes in float32; on a GPU products are rounded to TF32, TensorFlow's default.

    Args:
        config: Settings of the run.
        objective: What the scores are trained for.
        strategy: Devices; the pairs are divided equally among its replicas.
        initial: Networks to start from; see `start_from`.
    """

    def __init__(
        self,
        config: KeypointConfig,
        objective: KeypointObjective,
        strategy: tf.distribute.Strategy | None = None,
        initial: Sequence[KeypointNetwork] = (),
    ):
        self._objective: Callable = objective
        super().__init__(config, strategy, initial=initial)
        if config.xla and self._replicas > 1:
            self._objective = tf.function(objective, jit_compile=True)

    def __call__(self, views: Views, rate: float, step: int) -> dict[str, tf.Tensor]:
        """Updates the network; returns the loss and scores of the objective, scalar tensors.

        Args:
            views: Pairs.
            rate: Learning rate of this step.
            step: Number of this step, which seeds what the objective draws.
        """
        return self._run(views, rate, step, self._config.cost_at(step))

    def _make_network(self) -> KeypointNetwork:
        return make_keypoint_network(self._config)

    def _make_optimizer(self) -> tf.keras.optimizers.Optimizer:
        return tf.keras.optimizers.Adam()

    def _loss_and_gradients(
        self, inputs: Views, seed: tf.Tensor, *scalars: tf.Tensor
    ) -> tuple[dict[str, tf.Tensor], list[tf.Tensor]]:
        (cost,) = scalars
        with tf.GradientTape() as tape:
            loss, scores = score_views(self._forward, self._objective, inputs, cost, seed, True)
            loss /= self._replicas
        variables = [variable.value for variable in self.network.trainable_variables]
        means = {name: score / self._replicas for name, score in scores.items()}
        return {"loss": loss, **means}, tape.gradient(loss, variables)


def score_views(
    network: Callable,
    objective: Callable,
    views: Views,
    cost: tf.Tensor,
    seed: tf.Tensor,
    training: bool = False,
) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Returns the objective of a network on pairs of views."""
    views = Views(*(tf.cast(part, tf.float32) for part in views))
    images = tf.concat([views.first, views.second], 0)[..., tf.newaxis]
    factor, offset = contrast_map(images)
    logits = network(factor * images + offset, training=training)[..., 0]
    return objective(logits, views, cost, seed)


def make_keypoint_network(config: KeypointConfig) -> KeypointNetwork:
    """Returns the network of a run, built and freshly initialised."""
    network = KeypointNetwork(
        config.stride,
        config.filters,
        synchronized=config.synchronized_batch_norm,
        name="keypoint_network",
    )
    network.build((None, config.view_size, config.view_size, 1))
    return network
