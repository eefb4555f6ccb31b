"""Converting a dense network to ONNX with tf2onnx: an image in, keypoints and descriptors out."""

import json

import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.export.graph_extractor import graph_extractor
from doap_tf.export.inference_network import inference_network
from doap_tf.export.model_card import network_metadata
from doap_tf.networks import DenseNetwork, pack_bits


def convert_dense_to_onnx(network: DenseNetwork, max_keypoints: int = 8192) -> bytes:
    """Converts a dense network to an ONNX model in float32 that does what `DenseExtractor` does.

    The model takes `image`, float32 [1, 1, H, W], grey values of 0 to 1 in any size. It returns,
    the strongest first, `keypoints`, x and y, float32 [N, 2], `sizes` (twice the radius) and
    `scores`, float32 [N], and `descriptors`: float32 [N, D], or packed bits, uint8 [N, bits / 8].
    Metadata is stored as JSON in the model's properties.

    Args:
        network: A trained network.
        max_keypoints: Most keypoints that the model returns.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise InputError("ONNX needs tf2onnx: pip install tf2onnx.") from error
    if max_keypoints < 1:
        raise InputError(f"max_keypoints must be above 0, not {max_keypoints}.")
    network = inference_network(network)
    extractor = graph_extractor(network)

    @tf.function(
        input_signature=[tf.TensorSpec([1, 1, None, None], tf.float32, "image")], autograph=False
    )
    def detect_and_describe(image: tf.Tensor) -> dict[str, tf.Tensor]:
        grey = tf.round(255.0 * tf.clip_by_value(image[0, 0], 0.0, 1.0))
        (x, y, radius, scores), descriptors = extractor.extract(grey, tf.constant(max_keypoints))
        if network.head == "binary":
            # With a row more: ONNX Runtime gives sums of no rows another shape.
            descriptors = pack_bits(tf.pad(descriptors, [[0, 1], [0, 0]]))[:-1]
        return {
            "keypoints": tf.stack([x, y], axis=1),
            "sizes": 2.0 * radius,
            "scores": scores,
            "descriptors": descriptors,
        }

    model, _ = tf2onnx.convert.from_function(
        detect_and_describe, input_signature=detect_and_describe.input_signature
    )
    model.metadata_props.add(key="doap_tf", value=json.dumps(network_metadata(network)))
    return model.SerializeToString()
