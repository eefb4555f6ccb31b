"""One training step: forward, loss over the global list, gradients, update."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf.data.augmentation import turn_groups
from doap_tf.losses import AveragePrecisionLoss, HardestInBatchLoss, ListLoss
from doap_tf.networks import DescriptorNetwork
from doap_tf.training.config import TrainingConfig
from doap_tf.training.strategy import precision


class TrainingStep:
    """The network with its optimiser, and the function that updates them.

    Args:
        config: Settings of the run.
        strategy: Devices; a batch is divided equally among its replicas, while the list that is
            ranked is the whole batch.
        far_apart: Table of label mining, bool [sequences, K, K], or None.
    """

    def __init__(
        self,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy,
        far_apart: np.ndarray | None = None,
    ):
        self._config = config
        self._strategy = strategy
        self._replicas = strategy.num_replicas_in_sync
        self._seed = config.seed
        with strategy.scope(), precision(config.precision):
            self.network = self._fresh_network()
            self.optimizer = tf.keras.optimizers.SGD(momentum=config.momentum)
            self.optimizer.build(self.network.trainable_variables)
        self.loss = make_loss(config, far_apart)
        self._multipliers = [
            config.transformer_rate if "/prediction/" in variable.path else 1.0
            for variable in self.network.trainable_variables
        ]
        # XLA compiles neither collectives nor updates under a strategy.
        self._forward: Callable = self.network
        self._differentiate: Callable = self._loss_and_gradients
        if strategy is tf.distribute.get_strategy():  # the default one
            self._update = tf.function(self._replica_update, jit_compile=config.xla)
            return
        if config.xla and self._replicas == 1:
            self._differentiate = tf.function(self._loss_and_gradients, jit_compile=True)
        elif config.xla:
            self._forward = tf.function(self.network, jit_compile=True)
        self._update = tf.function(lambda *inputs: strategy.run(self._replica_update, args=inputs))

    def restart(self, seed: int) -> None:
        """Resets weights and optimiser to the start of a run; compiled functions are reused."""
        self._seed = seed
        with precision(self._config.precision):
            fresh = self._fresh_network()
        for variable, start in zip(self.network.variables, fresh.variables, strict=True):
            variable.assign(start)
        for variable in self.optimizer.variables:
            variable.assign(tf.zeros_like(variable))

    def _fresh_network(self) -> DescriptorNetwork:
        tf.keras.utils.set_random_seed(self._seed)
        return make_network(self._config)

    @property
    def variables(self) -> list[Any]:
        """The contents of a checkpoint: weights, statistics, dropout's seeds, momentum."""
        return [*self.network.variables, *self.optimizer.variables]

    def __call__(self, patches: np.ndarray, labels: np.ndarray, rate: float, step: int) -> Any:
        """Updates the network; returns the loss of the whole list as a scalar tensor.

        Args:
            patches: uint8 [M, S, S, 1].
            labels: int32 [M, 3].
            rate: Learning rate of this step.
            step: Number of this step, which seeds augmentation.
        """
        seed = tf.constant([self._seed, step], tf.int32)
        # On a GPU, a rate that changes in every step would wait for the step before.
        with tf.device("CPU:0"):
            host_rate = tf.constant(rate, tf.float32)
        losses = self._update(self._parts(patches), self._parts(labels), host_rate, seed)
        if self._replicas == 1:
            return self._strategy.experimental_local_results(losses)[0]
        return self._strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    def _parts(self, values: np.ndarray) -> Any:
        if self._replicas == 1:
            return tf.convert_to_tensor(values)
        size = len(values) // self._replicas

        def part(context: tf.distribute.InputContext) -> tf.Tensor:
            first = context.replica_id_in_sync_group * size
            return tf.convert_to_tensor(values[first : first + size])

        return self._strategy.experimental_distribute_values_from_function(part)

    def _replica_update(
        self, patches: tf.Tensor, labels: tf.Tensor, rate: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        loss, gradients = self._differentiate(patches, labels, seed)
        if self._config.clip_norm:
            gradients = self._clipped(gradients)
        self.optimizer.learning_rate.assign(rate)
        self.optimizer.apply(gradients)
        return loss

    def _loss_and_gradients(
        self, patches: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        patches = tf.cast(patches, tf.float32)
        if self._config.turn:
            patches = turn_groups(patches, labels[:, 0], seed)
        variables = self.network.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(labels, self._forward(patches, training=True))
        return loss, [
            multiplier * self._decayed(variable, gradient)
            for multiplier, variable, gradient in zip(
                self._multipliers,
                variables,
                tape.gradient(loss, [variable.value for variable in variables]),
                strict=True,
            )
        ]

    def _decayed(self, variable: Any, gradient: tf.Tensor) -> tf.Tensor:
        if not variable.path.endswith("/kernel"):
            return gradient
        # The optimiser sums over replicas, and the decay must count only once.
        return gradient + (self._config.weight_decay / self._replicas) * variable.value

    def _clipped(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        clipped, _ = tf.clip_by_global_norm(total, self._config.clip_norm)
        return [gradient / self._replicas for gradient in clipped]


def make_network(config: TrainingConfig) -> DescriptorNetwork:
    """Returns the network of a run, built and freshly initialised."""
    network = DescriptorNetwork(
        output_dim=config.dimension,
        head=config.head,
        width=config.width,
        dropout=config.dropout,
        spatial_transformer=config.spatial_transformer,
        padding=config.padding,
        magnification=config.magnification,
        synchronized=config.synchronized_batch_norm,
        name="descriptor_network",
    )
    network.build((None, network.input_size, network.input_size, 1))
    return network


def make_loss(config: TrainingConfig, far_apart: np.ndarray | None = None) -> ListLoss:
    """Returns the loss of a run."""
    distance = "hamming" if config.head == "binary" else config.distance
    if config.loss == "hardest_in_batch":
        return HardestInBatchLoss(distance=distance, far_apart=far_apart)
    return AveragePrecisionLoss(
        distance=distance,
        bins=config.bins or None,
        form=config.form,
        far_apart=far_apart,
    )
