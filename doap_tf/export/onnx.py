"""Converting a network to ONNX with tf2onnx."""

import json

from doap_tf.errors import InputError
from doap_tf.export.inference_network import FrozenNetwork
from doap_tf.export.model_card import network_metadata
from doap_tf.networks import DescriptorNetwork


def convert_to_onnx(network: DescriptorNetwork) -> bytes:
    """Converts a network to an ONNX model in float32.

    The model takes `patches`, float32 [N, S, S, 1] of the network's input size and any scale,
    N ≥ 1, and returns `descriptors`: float32 [N, D], or packed bits, uint8 [N, bits / 8]. Metadata
    is stored as JSON in the model's properties.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise InputError("ONNX needs tf2onnx: pip install tf2onnx.") from error
    describe = FrozenNetwork(network).describe
    model, _ = tf2onnx.convert.from_function(describe, input_signature=describe.input_signature)
    model.metadata_props.add(key="doap_tf", value=json.dumps(network_metadata(network)))
    return model.SerializeToString()
