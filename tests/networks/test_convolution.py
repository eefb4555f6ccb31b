import numpy as np
import pytest
import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock
from doap_tf.training.strategy import precision


@pytest.mark.parametrize(("policy", "tolerance"), [("float32", 1e-5), ("mixed_bfloat16", 1e-2)])
@pytest.mark.parametrize("side", [3, 5])
def test_a_single_channel_in_training_is_convolved_as_ever(policy, tolerance, side):
    with precision(policy):
        block = ConvolutionBlock(6, kernel_size=side)
    patches = tf.random.stateless_normal([4, 11, 8, 1], seed=[0, side])
    block.build(patches.shape)

    def reference(patches):
        convolved = tf.nn.conv2d(
            tf.cast(patches, block.compute_dtype),
            tf.cast(block.convolution.kernel.value, block.compute_dtype),
            strides=1,
            padding="SAME",
        )
        return tf.nn.relu(block.normalization(convolved, training=True))

    def value_and_gradients(layer):
        kernel = block.convolution.kernel.value
        with tf.GradientTape() as tape:
            tape.watch(patches)
            output = tf.cast(layer(patches), tf.float32)
            total = tf.reduce_sum(output**2 * tf.cos(tf.range(6.0)))
        return output, *tape.gradient(total, [patches, kernel])

    ours = value_and_gradients(lambda patches: block(patches, training=True))
    for value, wanted in zip(ours, value_and_gradients(reference), strict=True):
        np.testing.assert_allclose(value, wanted, atol=tolerance * np.abs(wanted).max())
