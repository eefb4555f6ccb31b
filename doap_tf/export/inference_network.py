"""Forms of a trained network to export: in float32, and with its weights as constants."""

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

from doap_tf.networks.descriptor_network import DescriptorNetwork, pack_bits

_Network = TypeVar("_Network", bound=tf.keras.Model)


def inference_network(network: _Network) -> _Network:
    """Returns a built network that computes in float32: the same, or a copy of a mixed one.

    Mixed precision speeds up training; where exported models run it saves nothing, and phones do
    not support bfloat16.
    """
    size = getattr(network, "input_size", None)
    if not network.built:
        network.build((None, size, size, 1))
    if network.compute_dtype == "float32":
        return network
    copy = type(network).from_config({**network.get_config(), "dtype": "float32"})
    copy.build((None, size, size, 1))
    copy.set_weights(network.get_weights())
    return copy


def with_constant_weights(network: tf.keras.Model) -> Callable[..., Any]:
    """Returns the inference of a built network as a function to trace, its weights constants.

    Keras variables would stay variables without values in a converted model.
    """
    weights = [
        [variable.numpy() for variable in variables]
        for variables in (network.trainable_variables, network.non_trainable_variables)
    ]

    def infer(*inputs: tf.Tensor) -> Any:
        constants = ([tf.constant(value) for value in values] for values in weights)
        outputs, _ = network.stateless_call(*constants, *inputs, training=False)
        return outputs

    return infer


class FrozenNetwork(tf.Module):
    """A descriptor network as one function with its weights as constants, for converters.

    Args:
        network: A trained network.
        batch_size: Fixed number of patches; by default any.
    """

    def __init__(self, network: DescriptorNetwork, batch_size: int | None = None):
        super().__init__()
        network = inference_network(network)
        infer = with_constant_weights(network)
        size = network.input_size

        @tf.function(
            input_signature=[tf.TensorSpec([batch_size, size, size, 1], tf.float32, "patches")]
        )
        def describe(patches: tf.Tensor) -> dict[str, tf.Tensor]:
            descriptors = infer(patches)
            binary = network.head == "binary"
            return {"descriptors": pack_bits(descriptors) if binary else descriptors}

        self.describe = describe
