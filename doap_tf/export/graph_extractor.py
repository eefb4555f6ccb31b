"""What finds and describes the keypoints of an image in a SavedModel and in an ONNX model."""

from collections.abc import Sequence

import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.features.graph import GraphDenseExtractor
from doap_tf.networks import ContextNetwork, DenseNetwork


def graph_extractor(network: DenseNetwork) -> GraphDenseExtractor:
    """Returns the extractor of a built network: `DenseExtractor` in float32, in a graph."""
    if isinstance(network, ContextNetwork):
        raise InputError("a network that describes patches, too, is exported as .tflite alone.")

    def describe(features: Sequence[tf.Tensor], points: tf.Tensor) -> tf.Tensor:
        # With a point more: ONNX Runtime does not convolve what is empty.
        return network.describe(features, tf.pad(points, [[0, 0], [0, 1], [0, 0]]))[:, :-1]

    return GraphDenseExtractor(network, describe, network.output_dim, network.stride)
