"""What an exported file says about the network inside it."""

from typing import Any

import keras
import tensorflow as tf

from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.networks import DescriptorNetwork
from doap_tf.version import __version__

FORMAT = 1


def network_metadata(network: DescriptorNetwork) -> dict[str, Any]:
    """All that a user of the network must know, ready for JSON."""
    binary = network.head == "binary"
    return {
        "format": FORMAT,
        "input_size": network.input_size,
        "normalization": "inside: each patch minus its mean, over its standard deviation",
        "head": network.head,
        "output_dim": network.output_dim,
        "output": "bits packed into bytes, first bit highest" if binary else "unit length",
        "magnification": network.magnification,
        "width": network.width,
        "spatial_transformer": network.spatial_transformer,
        "padding": network.padding,
        "weights_sha256": Descriptor(network).weights_sha256,
        "versions": {
            "doap_tf": __version__,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        },
    }
