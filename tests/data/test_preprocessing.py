import numpy as np
import tensorflow as tf

from doap_tf.preprocessing import resize_patches


def triangle_weights(source, target):
    """How much of each source pixel a target pixel holds: a tent as wide as the shrinking."""
    scale = max(source / target, 1)
    weights = np.zeros([target, source])
    for t in range(target):
        centre = (t + 0.5) * source / target - 0.5
        for s in range(source):
            weights[t, s] = max(0, 1 - abs(s - centre) / scale)
    return weights / weights.sum(axis=1, keepdims=True)


def test_resizing_is_anti_aliased():
    patches = np.random.default_rng(0).integers(0, 256, [2, 65, 65, 1], np.uint8)
    for size in (16, 32, 42, 80):
        weights = triangle_weights(65, size)
        expected = np.einsum("ys,nstc,xt->nyxc", weights, patches, weights)
        resized = resize_patches(patches, size)
        assert resized.dtype == tf.float32
        np.testing.assert_allclose(resized, expected, atol=1e-2)


def test_the_right_size_is_only_cast():
    patches = np.random.default_rng(0).integers(0, 256, [2, 32, 32, 1], np.uint8)
    resized = resize_patches(patches, 32)
    assert resized.dtype == tf.float32
    assert np.array_equal(resized, patches)
