"""Describing points by sampled maps of a dense network, and by patches, to export."""

from typing import Any

import tensorflow as tf

from doap_tf.networks.context_network import ContextNetwork
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.networks.descriptor_network import pack_bits, standardize


def describing_function(network: DenseNetwork, rows: int | None = None) -> Any:
    """Returns the signature `describe` of a network, its weights constants.

    It takes `sampled`, float32 [N, C], values of the maps at N points side by side, and for a
    `ContextNetwork` also `patches`, float32 [N, S, S, 1]; it returns `descriptors`, float32 [N, D],
    or packed bits, uint8 [N, bits / 8].

    Args:
        network: Built, in float32.
        rows: Fixed N; by default any.
    """
    mixing, shift = (folded.numpy() for folded in network.mixing.folded(tf.float32))
    mixing = mixing[0, 0]
    projection, bias = (variable.numpy() for variable in network.projection.weights)
    of_maps = tf.TensorSpec([rows, network.feature_channels], tf.float32, "sampled")

    def project(sampled: tf.Tensor) -> tf.Tensor:
        return tf.matmul(tf.nn.relu(tf.matmul(sampled, mixing) + shift), projection) + bias

    if not isinstance(network, ContextNetwork):

        @tf.function(input_signature=[of_maps])
        def describe(sampled: tf.Tensor) -> dict[str, tf.Tensor]:
            values = project(sampled)
            binary = network.head == "binary"
            return {
                "descriptors": pack_bits(values) if binary else tf.math.l2_normalize(values, -1)
            }

        return describe

    size, trunk = network.patch_size, network.trunk
    of_patches = tf.TensorSpec([rows, size, size, 1], tf.float32, "patches")
    weights = [
        [variable.numpy() for variable in variables]
        for variables in (trunk.trainable_variables, trunk.non_trainable_variables)
    ]

    @tf.function(input_signature=[of_maps, of_patches])
    def describe_both(sampled: tf.Tensor, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        constants = ([tf.constant(value) for value in values] for values in weights)
        cut, _ = trunk.stateless_call(*constants, standardize(patches), training=False)
        if network.head == "binary":
            return {"descriptors": pack_bits(tf.concat([project(sampled), cut], 1))}
        halves = (tf.math.l2_normalize(half, -1) for half in (project(sampled), cut))
        return {"descriptors": network.join(*halves)}

    return describe_both
