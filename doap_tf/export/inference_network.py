"""The form of a trained network that is exported."""

from doap_tf.networks import DescriptorNetwork


def inference_network(network: DescriptorNetwork) -> DescriptorNetwork:
    """Gives a built network that computes in float32: the given one, or a copy of a mixed one.

    Training keeps float32 weights and rounds activations for speed; what is exported runs on
    machines where that saves nothing, and bfloat16 is unknown to phones.
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
