"""Converting a keypoint network for LiteRT, which detection runs through without TensorFlow."""

import warnings

import tensorflow as tf

from doap_tf import tflite_metadata
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError
from doap_tf.export.inference_network import inference_network, with_constant_weights
from doap_tf.networks import KeypointNetwork
from doap_tf.quiet import stderr_discarded


def convert_keypoints_to_tflite(
    network: KeypointNetwork, image_size: tuple[int, int] | None = None
) -> bytes:
    """Converts a keypoint network to a .tflite model with builtin operators only.

    The model takes `images`, float32 [1, H, W, 1], grey values moved and scaled so that the whole
    image has the mean and deviation of `features.keypoint_maxima`, and returns `scores`, float32
    [1, H, W, 1]: logits, the larger, the better the keypoint.

    Args:
        network: A trained network.
        image_size: Fixed H and W, multiples of the network's stride, which browsers require; by
            default any.

    Returns:
        The contents of a .tflite file.
    """
    stride = network.stride
    height, width = image_size or (None, None)
    if image_size and not all(side > 0 and side % stride == 0 for side in image_size):
        raise InputError(
            f"image_size must be multiples of the stride, {stride}, not {height}x{width}."
        )
    network = inference_network(network)
    infer = with_constant_weights(network)
    holder = tf.Module()  # the converter keeps alive what it is given
    holder.score = tf.function(
        lambda images: {"scores": infer(images)},
        input_signature=[tf.TensorSpec([1, height, width, 1], tf.float32, "images")],
    )
    with warnings.catch_warnings(), stderr_discarded():
        warnings.simplefilter("ignore")  # the converter warns about its own deprecated parts
        model = tf.lite.TFLiteConverter.from_concrete_functions(
            [holder.score.get_concrete_function()], holder
        ).convert()
    metadata = {
        "network": "KeypointNetwork",
        "stride": stride,
        "receptive_field": network.receptive_field,
        "radius": network.radius,
        "image_size": image_size,
        "weights_sha256": weights_sha256(network),
    }
    return tflite_metadata.attach(model, metadata)
