"""A small dense network with weights by chance, for tests."""

import functools

import numpy as np
import tensorflow as tf
from scipy.spatial import KDTree

from doap_tf.export import convert_dense_to_tflite
from doap_tf.matching import Features
from doap_tf.networks import DenseNetwork


@functools.cache
def small_network(head: str = "real") -> DenseNetwork:
    """Returns a network whose statistics are not those of an untrained one."""
    tf.keras.utils.set_random_seed(0)
    filters = ((8, 8), (8,), (8,), (8,), (8,))
    network = DenseNetwork(filters=filters, hidden=8, output_dim=16, head=head)
    network.build((None, None, None, 1))
    rng = np.random.default_rng(0)
    network.set_weights(
        [
            rng.uniform(0.5, 2, weight.shape) if weight.ndim == 1 else weight
            for weight in network.get_weights()
        ]
    )
    return network


@functools.cache
def small_model(head: str = "real") -> bytes:
    """Returns the same as a .tflite model."""
    return convert_dense_to_tflite(small_network(head))


def check_features(keypoints: np.ndarray, scores, descriptors, expected: Features) -> None:
    """Checks features of another runtime, keypoints [N, 3] being x, y and size.

    They are as many, and all but one in a hundred have the same place, to 0.01 pixels, size and
    descriptor, to 3e-4: a pixel of a level in a thousand may be rounded otherwise.
    """
    assert len(keypoints) == len(expected.points)
    np.testing.assert_allclose(scores, expected.responses, atol=0.01)
    wanted = np.column_stack([expected.points, 2 * expected.scales])
    apart, rows = KDTree(keypoints).query(wanted)  # because almost equal scores change places
    same = apart < 0.01
    assert same.mean() >= 0.99 and len(np.unique(rows[same])) == same.sum()
    found, rows = descriptors[rows[same]], expected.descriptors[same]
    assert found.dtype == rows.dtype
    if rows.dtype == np.uint8:
        assert np.bitwise_count(found ^ rows).sum() <= 1e-3 * 8 * rows.size
    else:
        np.testing.assert_allclose(found, rows, atol=3e-4)
