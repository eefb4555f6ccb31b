import numpy as np
import pytest
import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock

keras = tf.keras


@pytest.fixture
def activations():
    scale = np.array([1e-3, 1.0, 30.0])
    offset = np.array([0.0, -3.0, 100.0])
    noise = np.random.default_rng(0).normal(size=[64, 8, 8, 3])
    return (noise * scale + offset).astype(np.float32)


def normalization():
    return ConvolutionBlock(3).normalization


def test_batches_are_normalized_with_their_own_statistics(activations):
    values = activations.astype(np.float64)
    mean, variance = values.mean((0, 1, 2)), values.var((0, 1, 2))
    layer = normalization()
    normalized = layer(activations, training=True)
    np.testing.assert_allclose(normalized, (values - mean) / np.sqrt(variance + 1e-5), atol=1e-4)
    np.testing.assert_allclose(layer.moving_mean, 0.1 * mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, 0.9 + 0.1 * variance, rtol=1e-4)


def test_a_constant_channel_stays_finite():
    constant = np.full([4, 4, 4, 3], 1000.1, np.float32)
    assert np.isfinite(normalization()(constant, training=True)).all()


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-4), ("mixed_bfloat16", 0.05)])
def test_a_kernel_that_covers_its_input_is_a_product_of_matrices(activations, dtype, tolerance):
    block = ConvolutionBlock(5, kernel_size=8, padding="valid", dtype=dtype)
    block.build(activations.shape)
    generator = np.random.default_rng(2)
    mean, variance = generator.normal(size=5), generator.uniform(0.5, 2, 5)
    block.normalization.set_weights([mean, variance])
    (kernel,) = block.convolution.get_weights()
    convolved = np.einsum("bijc,ijcd->bd", activations.astype(np.float64), kernel)
    expected = np.maximum(convolved - mean, 0) / np.sqrt(variance + 1e-5)
    found = block(activations)
    assert found.shape == (64, 1, 1, 5)
    error = np.abs(found[:, 0, 0].numpy().astype(np.float64) - expected).max()
    assert error <= tolerance * np.abs(expected).max()
    operations = tf.function(block).get_concrete_function(activations).graph.get_operations()
    kinds = {operation.type for operation in operations}
    assert "MatMul" in kinds and "Conv2D" not in kinds


def test_depthwise_channels_stay_apart(activations):
    block = ConvolutionBlock(None, kernel_size=3, strides=2, activation=None)
    before = block(activations).numpy()
    changed = activations.copy()
    changed[..., 1] += 1
    after = block(changed).numpy()
    assert before.shape == (64, 4, 4, 3)
    np.testing.assert_array_equal(after[..., [0, 2]], before[..., [0, 2]])
    assert np.abs(after[..., 1] - before[..., 1]).max() > 0.1


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("filters", [5, None])
def test_without_training_normalization_is_folded_into_the_kernel(activations, filters, shift):
    block = ConvolutionBlock(filters, strides=2, shift=shift)
    block.build(activations.shape)
    generator = np.random.default_rng(3)
    channels = filters or activations.shape[-1]
    block.normalization.set_weights(
        [generator.uniform(0.5, 2, channels) for _ in block.normalization.weights]
    )
    one_by_one = block.normalization(block.convolution(activations), training=False)
    np.testing.assert_allclose(block(activations), tf.nn.relu(one_by_one), rtol=1e-4, atol=1e-4)
