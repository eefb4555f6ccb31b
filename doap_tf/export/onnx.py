"""Converting a network to ONNX, by tf2onnx."""

import json

from doap_tf.errors import InputError
from doap_tf.export.frozen_network import FrozenNetwork
from doap_tf.export.metadata import network_metadata
from doap_tf.networks import DescriptorNetwork

METADATA_KEY = "doap_tf"


def convert_to_onnx(network: DescriptorNetwork) -> bytes:
    """Converts a network to an ONNX model in float32.

    It takes `patches`, float32 [N, S, S, 1] of the network's input size and of any scale, and gives
    `descriptors`: float32 [N, D], or packed bits, uint8 [N, bits / 8]; N must not be 0. Metadata is
    kept as JSON in the model's properties.
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise InputError("ONNX needs tf2onnx: pip install doap_tf[onnx].") from error
    describe = FrozenNetwork(network).describe
    model, _ = tf2onnx.convert.from_function(describe, input_signature=describe.input_signature)
    model.metadata_props.add(key=METADATA_KEY, value=json.dumps(network_metadata(network)))
    return model.SerializeToString()
