"""The networks and their parts, as Keras models and layers."""

from doap_tf.networks.dense_network import (
    DENSE_PRESETS,
    DenseMaps,
    DenseNetwork,
    sample_map,
    standardize_images,
)
from doap_tf.networks.descriptor_network import TRUNKS, DescriptorNetwork, pack_bits, standardize
from doap_tf.networks.fast_trunk import FastTrunk
from doap_tf.networks.keypoint_network import KeypointNetwork
from doap_tf.networks.l2net import L2Net
from doap_tf.networks.spatial_transformer import PADDINGS, SpatialTransformer, affine_sample

__all__ = [
    "DENSE_PRESETS",
    "PADDINGS",
    "TRUNKS",
    "DenseMaps",
    "DenseNetwork",
    "DescriptorNetwork",
    "FastTrunk",
    "KeypointNetwork",
    "L2Net",
    "SpatialTransformer",
    "affine_sample",
    "pack_bits",
    "sample_map",
    "standardize",
    "standardize_images",
]
