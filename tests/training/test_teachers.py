import numpy as np
import tensorflow as tf

from doap_tf.networks import DescriptorNetwork
from doap_tf.preprocessing import resize_patches
from doap_tf.training.teachers import Teachers
from doap_tf.zoo import load_keras
from tests.training.launch import make_groups


def test_several_are_averaged():
    names = ["doap-tiny-256b", "doap-fast-128"]
    patches = patches_of(32)
    taught = Teachers([load_keras(name) for name in names], 32)(patches).numpy()
    similarities = []
    for name in names:
        rows = load_keras(name)(patches).numpy()
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        similarities.append(rows @ rows.T)
    np.testing.assert_allclose(taught @ taught.T / 2, np.mean(similarities, axis=0), atol=1e-4)


def test_patches_are_resized_for_each_in_a_way_that_xla_compiles():
    patches = patches_of(42)
    small = DescriptorNetwork(16, trunk="tiny")
    large = DescriptorNetwork(24, width=0.125, spatial_transformer=True)
    descriptors = small(resize_patches(patches, 32)), large(patches)
    rows = [tf.math.l2_normalize(each, axis=1) for each in descriptors]
    taught = tf.function(Teachers([small, large], 42), jit_compile=True)(patches).numpy()
    np.testing.assert_allclose(taught, np.concatenate(rows, axis=1), atol=1e-3)


def patches_of(size):
    return make_groups(size=size).patches[:9, ..., np.newaxis].astype(np.float32)
