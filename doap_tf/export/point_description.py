"""Describing points by sampled maps of a dense network, to export."""

from typing import Any

import tensorflow as tf

from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.networks.descriptor_network import pack_bits


def describing_function(network: DenseNetwork, rows: int | None = None) -> Any:
    """Returns the signature `describe` of a network, its weights constants.

    It takes `sampled`, float32 [N, C], values of the maps at N points side by side, and returns
    `descriptors`, float32 [N, D], or packed bits, uint8 [N, bits / 8].

    Args:
        network: Built, in float32.
        rows: Fixed N; by default any.
    """
    mixing, shift = (folded.numpy() for folded in network.mixing.folded(tf.float32))
    mixing = mixing[0, 0]
    projection, bias = (variable.numpy() for variable in network.projection.weights)

    @tf.function(
        input_signature=[tf.TensorSpec([rows, network.feature_channels], tf.float32, "sampled")]
    )
    def describe(sampled: tf.Tensor) -> dict[str, tf.Tensor]:
        hidden = tf.nn.relu(tf.matmul(sampled, mixing) + shift)
        values = tf.matmul(hidden, projection) + bias
        binary = network.head == "binary"
        return {"descriptors": pack_bits(values) if binary else tf.math.l2_normalize(values, -1)}

    return describe
