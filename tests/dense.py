"""A small dense network with weights by chance, for tests."""

import functools

import numpy as np
import tensorflow as tf

from doap_tf.export import convert_dense_to_tflite
from doap_tf.networks import DenseNetwork


@functools.cache
def small_network(head: str = "real", kind: type[DenseNetwork] = DenseNetwork) -> DenseNetwork:
    """Returns a network whose statistics are not those of an untrained one."""
    tf.keras.utils.set_random_seed(0)
    filters = ((8, 8), (8,), (8,), (8,), (8,))
    network = kind(filters=filters, hidden=8, output_dim=16, head=head)
    network.build((None, None, None, 1))
    rng = np.random.default_rng(0)
    network.set_weights(
        [
            rng.uniform(0.5, 2, weight.shape) if weight.ndim == 1 else weight
            for weight in network.get_weights()
        ]
    )
    return network


@functools.cache
def small_model(head: str = "real", kind: type[DenseNetwork] = DenseNetwork) -> bytes:
    """Returns the same as a .tflite model."""
    return convert_dense_to_tflite(small_network(head, kind))
