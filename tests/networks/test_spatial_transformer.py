import numpy as np
import pytest
import tensorflow as tf

from doap_tf.networks import PADDINGS, SpatialTransformer, affine_sample

NUMPY_MODES = {"replicate": "edge", "symmetric": "symmetric", "zeros": "constant"}


def sample_by_padding(image, transform, output_size, padding):
    """Pads the image with NumPy by more than the map reaches, then interpolates pixel by pixel."""
    size, margin = len(image), 60
    padded = np.pad(image, margin, mode=NUMPY_MODES[padding])
    result = np.empty([output_size, output_size])
    for row in range(output_size):
        for column in range(output_size):
            centre = [(2 * column + 1) / output_size - 1, (2 * row + 1) / output_size - 1, 1]
            x, y = (transform @ centre + 1) * size / 2 - 0.5 + margin
            left, top = int(np.floor(x)), int(np.floor(y))
            a, b = x - left, y - top
            result[row, column] = (
                padded[top, left] * (1 - a) * (1 - b)
                + padded[top, left + 1] * a * (1 - b)
                + padded[top + 1, left] * (1 - a) * b
                + padded[top + 1, left + 1] * a * b
            )
    return result


def random_transforms(generator, count):
    return np.array([[1.0, 0, 0], [0, 1, 0]]) + generator.normal(scale=0.5, size=[count, 2, 3])


@pytest.mark.parametrize("padding", PADDINGS)
def test_equals_padding_and_interpolating(padding):
    generator = np.random.default_rng(0)
    images = generator.random([4, 11, 11, 1])
    transforms = random_transforms(generator, 4)
    got = affine_sample(tf.constant(images), tf.constant(transforms), 8, padding)
    for image, transform, sampled in zip(images[..., 0], transforms, got, strict=True):
        wanted = sample_by_padding(image, transform, 8, padding)
        np.testing.assert_allclose(sampled[..., 0], wanted, atol=1e-12)


@pytest.mark.parametrize("padding", PADDINGS)
def test_differentiates_what_it_computes(padding):
    generator = np.random.default_rng(1)
    images = tf.constant(generator.random([2, 7, 7, 1]))
    transforms = tf.constant(random_transforms(generator, 2))
    weights = generator.random([2, 5, 5, 1])

    def total(images, transforms):
        return tf.reduce_sum(affine_sample(images, transforms, 5, padding) * weights)

    wanted, got = tf.test.compute_gradient(total, [images, transforms], delta=1e-6)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("padding", PADDINGS)
def test_xla_changes_nothing(padding):
    generator = np.random.default_rng(2)
    images = tf.constant(generator.random([3, 42, 42, 1]), tf.float32)
    transforms = tf.constant(random_transforms(generator, 3), tf.float32)

    def value_and_gradient(images, transforms):
        with tf.GradientTape() as tape:
            tape.watch([images, transforms])
            sampled = affine_sample(images, transforms, 32, padding)
            total = tf.reduce_sum(sampled**2)
        return sampled, *tape.gradient(total, [images, transforms])

    plain = value_and_gradient(images, transforms)
    compiled = tf.function(value_and_gradient, jit_compile=True)(images, transforms)
    for one, other in zip(compiled, plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-2)


def test_starts_as_the_identity():
    patches = np.random.default_rng(3).random([5, 42, 42, 1]).astype(np.float32)
    layer = SpatialTransformer(output_size=42)
    aligned, transforms = layer(patches, training=True, return_transform=True)
    np.testing.assert_array_equal(transforms, [[[1, 0, 0], [0, 1, 0]]] * 5)
    np.testing.assert_allclose(aligned, patches, atol=1e-5)


def test_a_quarter_turn_turns():
    patches = np.random.default_rng(4).random([1, 8, 8, 1])
    turn = np.array([[[0.0, -1, 0], [1, 0, 0]]])
    got = affine_sample(tf.constant(patches), tf.constant(turn), 8)
    np.testing.assert_allclose(got[0], np.rot90(patches[0]), atol=1e-12)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"padding.*mirror"):
        SpatialTransformer(padding="mirror")
    with pytest.raises(ValueError, match=r"\[2, 8, 9, 1\]"):
        affine_sample(tf.zeros([2, 8, 9, 1]), tf.zeros([2, 2, 3]), 4)
