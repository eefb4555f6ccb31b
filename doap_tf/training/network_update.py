"""Updating a network on all replicas of a strategy: gradients, clipping, optimiser."""

import abc
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.training.initial_weights import start_from


class NetworkUpdate(abc.ABC):
    """A network with its optimiser, and the function that updates them.

    Args:
        config: Settings of the run: `batch_size`, `seed`, `clip_norm`, `xla` and
            `synchronized_batch_norm`.
        strategy: Devices, the current ones by default; inputs are divided equally among its
            replicas.
        in_parts: Whether the subclass compiles parts of a step itself.
        initial: The networks to start from that `config.initial` names; see `start_from`.
    """

    def __init__(
        self,
        config: Any,
        strategy: tf.distribute.Strategy | None = None,
        in_parts: bool = False,
        initial: Sequence[tf.keras.Model] = (),
    ):
        if len(initial) != len(config.initial_networks):
            raise InputError(
                f"{len(initial)} networks to start from are given, but the settings name "
                f"{config.initial!r}."
            )
        self._config = config
        self.initial = initial
        self.strategy = strategy = strategy or tf.distribute.get_strategy()
        self._replicas = strategy.num_replicas_in_sync
        if config.batch_size % self._replicas:
            raise InputError(
                f"batch_size {config.batch_size} is not a multiple of the {self._replicas} "
                "replicas."
            )
        self._seed = config.seed
        with strategy.scope(), self._precision():
            self.network = self._fresh_network()
            self.optimizer = self._make_optimizer()
            self.optimizer.build(self.network.trainable_variables)
        xla = config.xla and not in_parts
        # XLA compiles neither collectives nor updates under a strategy.
        self._forward: Callable = self.network
        self._differentiate: Callable = self._loss_and_gradients
        if strategy is tf.distribute.get_strategy():  # the default one
            self._update = tf.function(self._replica_update, jit_compile=xla)
            return
        if xla and self._replicas == 1:
            self._differentiate = tf.function(self._loss_and_gradients, jit_compile=True)
        elif xla and not config.synchronized_batch_norm:
            self._forward = tf.function(self.network, jit_compile=True)
        self._update = tf.function(lambda *inputs: strategy.run(self._replica_update, args=inputs))

    @abc.abstractmethod
    def _make_network(self) -> Any:
        """Returns the network, built and freshly initialised."""

    @abc.abstractmethod
    def _make_optimizer(self) -> Any:
        """Returns the optimiser, whose learning rate is set in every step."""

    @abc.abstractmethod
    def _loss_and_gradients(
        self, inputs: Any, seed: tf.Tensor, *scalars: tf.Tensor
    ) -> tuple[Any, list[tf.Tensor]]:
        """Returns scalars and gradients, both to be summed over the replicas.

        Args:
            inputs: This replica's part of the inputs of `_run`.
            seed: int32 [2], the run's seed and the number of the step.
            *scalars: Those of `_run`.
        """

    def _precision(self) -> contextlib.AbstractContextManager[None]:
        """Returns the context in which networks are built and updated."""
        return contextlib.nullcontext()

    @property
    def variables(self) -> list[Any]:
        """The contents of a checkpoint: weights, statistics, dropout's seeds, optimiser."""
        return [*self.network.variables, *self.optimizer.variables]

    def restart(self, seed: int) -> None:
        """Resets weights and optimiser to the start of a run; compiled functions are reused."""
        self._seed = seed
        with self._precision():
            fresh = self._fresh_network()
        for variable, start in zip(self.network.variables, fresh.variables, strict=True):
            variable.assign(start)
        for variable in self.optimizer.variables:
            variable.assign(tf.zeros_like(variable))

    def _fresh_network(self) -> Any:
        tf.keras.utils.set_random_seed(self._seed)
        network = self._make_network()
        if self.initial:
            start_from(network, self.initial)
        return network

    def _run(self, inputs: Any, rate: float, step: int, *scalars: float) -> Any:
        """Updates the network; returns the scalars of `_loss_and_gradients` for all replicas.

        Args:
            inputs: A structure of arrays with as many rows each.
            rate: Learning rate of this step.
            step: Number of this step, which seeds what is random.
            *scalars: More that changes from step to step.
        """
        seed = tf.constant([self._seed, step], tf.int32)
        # On a GPU, a rate that changes in every step would wait for the step before.
        with tf.device("CPU:0"):
            host_scalars = [tf.constant(scalar, tf.float32) for scalar in (rate, *scalars)]
        with self._precision():
            results = self._update(tf.nest.map_structure(self._parts, inputs), seed, *host_scalars)
        return tf.nest.map_structure(self._total, results)

    def _parts(self, values: Any) -> Any:
        if self._replicas == 1:
            return tf.convert_to_tensor(values)
        size = len(values) // self._replicas

        def part(context: tf.distribute.InputContext) -> tf.Tensor:
            first = context.replica_id_in_sync_group * size
            return tf.convert_to_tensor(values[first : first + size])

        return self.strategy.experimental_distribute_values_from_function(part)

    def _total(self, values: Any) -> tf.Tensor:
        if self._replicas == 1:
            return self.strategy.experimental_local_results(values)[0]
        return self.strategy.reduce(tf.distribute.ReduceOp.SUM, values, axis=None)

    def _replica_update(
        self, inputs: Any, seed: tf.Tensor, rate: tf.Tensor, *scalars: tf.Tensor
    ) -> Any:
        results, gradients = self._differentiate(inputs, seed, *scalars)
        if self._config.clip_norm:
            gradients = self._clipped(gradients)
        self.optimizer.learning_rate.assign(rate)
        self.optimizer.apply(gradients)
        return results

    def _clipped(self, gradients: list[tf.Tensor]) -> list[tf.Tensor]:
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        clipped, _ = tf.clip_by_global_norm(total, self._config.clip_norm)
        return [gradient / self._replicas for gradient in clipped]
