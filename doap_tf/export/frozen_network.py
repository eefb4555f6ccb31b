"""A network as one function of constants, which converters to other formats start from."""

import tensorflow as tf

from doap_tf.export.inference_network import inference_network
from doap_tf.networks import DescriptorNetwork, pack_bits


class FrozenNetwork(tf.Module):
    """Computes descriptors with the weights written into the graph.

    Keras' variables would stay variables in a converted model, and wait for values for ever.

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
