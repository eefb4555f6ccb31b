"""What finds and describes the keypoints of an image in a SavedModel and in an ONNX model."""

import tensorflow as tf

from doap_tf.features.graph import GraphDenseExtractor
from doap_tf.networks import DenseNetwork


def graph_extractor(network: DenseNetwork) -> GraphDenseExtractor:
    """Returns the extractor of a built network: `DenseExtractor` in float32, in a graph."""

    def describe(sampled: tf.Tensor) -> tf.Tensor:
        # With a point more: ONNX Runtime does not convolve what is empty.
        return network.project(tf.pad(sampled, [[0, 0], [0, 1], [0, 0]]))[:, :-1]

    return GraphDenseExtractor(
        network, network.sample, describe, network.feature_channels, network.stride
    )
