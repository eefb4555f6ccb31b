"""The descriptor network and its parts, as Keras models and layers."""

from doap_tf.networks.descriptor_network import DescriptorNetwork, pack_bits, standardize
from doap_tf.networks.l2net import L2Net
from doap_tf.networks.spatial_transformer import PADDINGS, SpatialTransformer, affine_sample

__all__ = [
    "PADDINGS",
    "DescriptorNetwork",
    "L2Net",
    "SpatialTransformer",
    "affine_sample",
    "pack_bits",
    "standardize",
]
