"""Maps and descriptors of the dense network, and what its presets cost."""

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.networks import DENSE_PRESETS, DenseNetwork, sample_map

TINY = {"filters": ((4, 4), (8,), (8,), (8,), (8,)), "hidden": 8, "output_dim": 16}


def make(**settings) -> DenseNetwork:
    tf.keras.utils.set_random_seed(0)
    network = DenseNetwork(**settings)
    network.build((None, None, None, 1))
    return network


def image(height, width, seed=0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0, 255, [1, height, width, 1]).astype(np.float32)


def test_maps_and_descriptors(tmp_path):
    network = make(**TINY)
    scores, features = network(image(64, 96))
    assert scores.shape == (1, 64, 96, 1) and scores.dtype == tf.float32
    shapes = [(64 // stride, 96 // stride) for stride in network.feature_strides]
    assert [tuple(level.shape[1:3]) for level in features] == shapes
    assert sum(level.shape[-1] for level in features) == network.feature_channels
    points = tf.constant([[[0.0, 0.0], [95.0, 63.0], [40.3, 20.7]]])
    rows = network.describe(features, points)
    np.testing.assert_allclose(tf.norm(rows, axis=-1), np.ones([1, 3]), rtol=1e-5)
    network.save(tmp_path / "dense.keras")
    loaded = tf.keras.models.load_model(tmp_path / "dense.keras")
    again = loaded(image(64, 96))
    np.testing.assert_array_equal(again.scores, scores)
    np.testing.assert_array_equal(loaded.describe(again.features, points), rows)


def test_a_binary_head_is_relaxed_in_training_only():
    network = make(**{**TINY, "head": "binary"})
    points = tf.random.stateless_uniform([1, 5, 2], [0, 1], 0, 63)
    _, features = network(image(64, 64))
    assert set(np.unique(network.describe(features, points))) == {-1.0, 1.0}
    relaxed = network.describe(features, points, training=True).numpy()
    assert (np.abs(relaxed) < 1).all() and len(np.unique(relaxed)) > 16


def test_maps_are_sampled_between_the_centres_of_cells():
    level = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    points = np.array([[[1.5, 1.5], [5.5, 1.5], [3.5, 5.5], [-9, -9], [99, 99], [9.5, 8.5]]])
    sampled = sample_map(tf.constant(level), tf.constant(points, tf.float32), 4)
    np.testing.assert_allclose(sampled[0, :, 0], [0, 1, 4.5, 0, 11, 9])
    single = sample_map(tf.constant(level[:, :1, :1]), tf.constant(points, tf.float32), 4)
    np.testing.assert_array_equal(single, np.zeros([1, 6, 1]))


def test_contrast_and_brightness_do_not_matter_and_a_flat_image_is_finite():
    network = make(**TINY)
    original = image(64, 64)
    faint = 21 + original * (22 / 255)
    np.testing.assert_allclose(network(faint).scores, network(original).scores, atol=1e-4)
    assert np.isfinite(network(np.full([1, 32, 32, 1], 7.0)).scores).all()


def test_a_strip_with_its_margin_has_the_features_of_the_whole_image():
    network = make(**TINY)
    margin = network.margin
    whole = image(2 * margin + 64, 64)
    statistics = np.array([[whole.mean(), whole.std()]], np.float32)
    expected, strip = network(whole), network(whole[:, : margin + 64], statistics)
    np.testing.assert_allclose(strip.scores[:, :64], expected.scores[:, :64], atol=1e-5)
    for one, two, stride in zip(
        strip.features, expected.features, network.feature_strides, strict=True
    ):
        np.testing.assert_allclose(one[:, : 64 // stride], two[:, : 64 // stride], atol=1e-5)


def test_the_score_leaves_the_trunk_alone():
    network = make(**TINY)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(network(image(64, 64), training=True).scores)
    gradients = tape.gradient(total, network.trainable_variables)
    learning = {
        variable.path.split("/")[1]
        for variable, gradient in zip(network.trainable_variables, gradients, strict=True)
        if gradient is not None
    }
    assert learning == {"score_half", "score_quarter", "score_eighth", "score_block", "score_head"}


def multiply_adds(network):
    """For each pixel of an image, in all convolutions."""
    layers = [
        *(
            (block.convolution, 4**n)
            for n, level in enumerate(network.levels, 1)
            for block in level
        ),
        (network.score_half, 4),
        (network.score_quarter, 16),
        (network.score_eighth, 64),
        (network.score_block.convolution, 4),
        (network.score_head, 4),
    ]
    return sum(float(np.prod(layer.kernel.shape)) / pixels for layer, pixels in layers)


@pytest.mark.parametrize(
    ("name", "limit"), [("dense-128", 11.6), ("dense-mid-128", 5.6), ("dense-small-256b", 2.5)]
)
def test_multiply_adds_of_a_megapixel(name, limit):
    network = make(**DENSE_PRESETS[name])
    cost = multiply_adds(network) * 1e6 / 1e9
    print(f"{name}: {cost:.2f} G multiply-adds a megapixel, {network.count_params():,} weights")
    assert 0.7 * limit < cost < limit


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head": "float"}, "head must be one of real, binary"),
        ({"head": "binary", "output_dim": 12}, "multiple of 8, not 12"),
        ({"filters": ((4,),)}, "filters must be five lists"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        DenseNetwork(**{**TINY, **change})
