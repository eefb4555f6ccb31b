"""One step of descriptor training: forward, loss over the global list, gradients, update."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf.data.augmentation import turn_groups
from doap_tf.errors import InputError, check_choice
from doap_tf.losses import LOSSES, DistillationLoss, ListLoss
from doap_tf.networks import DescriptorNetwork
from doap_tf.training.config import TrainingConfig
from doap_tf.training.network_update import NetworkUpdate
from doap_tf.training.strategy import precision
from doap_tf.training.teachers import Teachers


class TrainingStep(NetworkUpdate):
    """The network with its optimiser, and the function that updates them.

    Args:
        config: Settings of the run.
        strategy: Devices; a batch is divided equally among its replicas, while the list that is
            ranked is the whole batch.
        far_apart: Table of label mining, bool [sequences, K, K], or None.
        teachers: The networks that `config.teachers` names.
        initial: The networks to start from that `config.initial` names; see `start_from`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        strategy: tf.distribute.Strategy | None = None,
        far_apart: np.ndarray | None = None,
        teachers: Sequence[DescriptorNetwork] = (),
        initial: Sequence[DescriptorNetwork] = (),
    ):
        if len(teachers) != len(config.teachers):
            raise InputError(
                f"{len(teachers)} teachers are given, but the settings name {config.teacher!r}."
            )
        super().__init__(config, strategy, initial=initial)
        self.loss = make_loss(config, far_apart)
        self._distillation = DistillationLoss()
        with self.strategy.scope(), self._precision():
            self._teachers = Teachers(teachers, self.network.input_size) if teachers else None
        self._multipliers = [
            config.transformer_rate if "/prediction/" in variable.path else 1.0
            for variable in self.network.trainable_variables
        ]

    def __call__(self, patches: np.ndarray, labels: np.ndarray, rate: float, step: int) -> Any:
        """Updates the network; returns the loss of the whole list as a scalar tensor.

        Args:
            patches: uint8 [M, S, S, 1].
            labels: int32 [M, 3].
            rate: Learning rate of this step.
            step: Number of this step, which seeds augmentation.
        """
        return self._run((patches, labels), rate, step)

    def _make_network(self) -> DescriptorNetwork:
        return make_network(self._config)

    def _make_optimizer(self) -> tf.keras.optimizers.Optimizer:
        return tf.keras.optimizers.SGD(momentum=self._config.momentum)

    def _precision(self) -> contextlib.AbstractContextManager[None]:
        return precision(self._config.precision)

    def _loss_and_gradients(
        self, inputs: tuple[tf.Tensor, tf.Tensor], seed: tf.Tensor, *scalars: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        patches, labels = inputs
        patches = tf.cast(patches, tf.float32)
        if self._config.turn:
            patches = turn_groups(patches, labels[:, 0], seed)
        variables = self.network.trainable_variables
        taught = self._teachers(patches) if self._teachers else None
        with tf.GradientTape() as tape:
            descriptors = self._forward(patches, training=True)
            loss = objective = self.loss(labels, descriptors)
            if taught is not None:
                with tf.control_dependencies([loss]):  # all replicas gather in this order
                    distilled = self._distillation(taught, tf.identity(descriptors))
                objective += self._config.teacher_weight * distilled
        return loss, [
            multiplier * self._decayed(variable, gradient)
            for multiplier, variable, gradient in zip(
                self._multipliers,
                variables,
                tape.gradient(objective, [variable.value for variable in variables]),
                strict=True,
            )
        ]

    def _decayed(self, variable: Any, gradient: tf.Tensor) -> tf.Tensor:
        if not variable.path.endswith("/kernel"):
            return gradient
        # The optimiser sums over replicas, and the decay must count only once.
        return gradient + (self._config.weight_decay / self._replicas) * variable.value


def make_network(config: TrainingConfig) -> DescriptorNetwork:
    """Returns the network of a run, built and freshly initialised."""
    network = DescriptorNetwork(
        output_dim=config.dimension,
        head=config.head,
        trunk=config.trunk,
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
    check_choice("loss", config.loss, LOSSES)
    loss: Any = LOSSES[config.loss]
    return loss(
        distance="hamming" if config.head == "binary" else config.distance,
        far_apart=far_apart,
        # 0 stands for the loss's own default.
        **{name: getattr(config, name) or None for name in loss.settings},
    )
