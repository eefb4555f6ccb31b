"""Forms of a trained network to export: in float32, and with its weights as constants."""

import tensorflow as tf

from doap_tf.networks import DescriptorNetwork, pack_bits


def inference_network(network: DescriptorNetwork) -> DescriptorNetwork:
    """Returns a built network that computes in float32: the same, or a copy of a mixed one.

    Mixed precision speeds up training; where exported models run it saves nothing, and phones do
    not support bfloat16.
    """
    size = network.input_size
    if not network.built:
        network.build((None, size, size, 1))
    if network.compute_dtype == "float32":
        return network
    copy = type(network).from_config({**network.get_config(), "dtype": "float32"})
    copy.build((None, size, size, 1))
    copy.set_weights(network.get_weights())
    return copy


class FrozenNetwork(tf.Module):
    """A network as one function with its weights as constants, for converters.

    Keras variables would stay variables without values in a converted model.

    Args:
        network: A trained network.
        batch_size: Fixed number of patches; by default any.
    """

    def __init__(self, network: DescriptorNetwork, batch_size: int | None = None):
        super().__init__()
        network = inference_network(network)
        size = network.input_size
        weights = [
            [variable.numpy() for variable in variables]
            for variables in (network.trainable_variables, network.non_trainable_variables)
        ]

        @tf.function(
            input_signature=[tf.TensorSpec([batch_size, size, size, 1], tf.float32, "patches")]
        )
        def describe(patches: tf.Tensor) -> dict[str, tf.Tensor]:
            constants = ([tf.constant(value) for value in values] for values in weights)
            descriptors, _ = network.stateless_call(*constants, patches, training=False)
            binary = network.head == "binary"
            return {"descriptors": pack_bits(descriptors) if binary else descriptors}

        self.describe = describe
