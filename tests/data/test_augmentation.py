import collections

import numpy as np
import pytest
import tensorflow as tf
from scipy import ndimage

from doap_tf.data import augment, augmentation

SEED = tf.constant([3, 17])


def random_patches(count, side=12):
    patches = np.random.default_rng(0).integers(0, 256, [count, side, side, 1], np.uint8)
    return tf.constant(patches)


def test_xla_changes_nothing():
    patches, groups = random_patches(24), tf.range(24) // 3

    def changed(patches, seed):
        return augment(patches, groups, seed, affine=0.1, photometric=0.3)

    plain = changed(patches, SEED)
    compiled = tf.function(changed, jit_compile=True)(patches, SEED)
    np.testing.assert_allclose(plain, compiled, atol=0.02)
    assert np.abs(plain - tf.cast(patches, tf.float32)).max() > 10
    assert plain.dtype == tf.float32
    assert np.min(plain) >= 0 and np.max(plain) <= 255


@pytest.mark.parametrize("changes", [{}, {"turn": False, "affine": 0.1}, {"photometric": 0.3}])
def test_the_seed_decides(changes):
    patches, groups = random_patches(8), tf.range(8)
    first = augment(patches, groups, SEED, **changes)
    assert np.array_equal(first, augment(patches, groups, SEED, **changes))
    for other in ([3, 18], [4, 17]):
        assert not np.array_equal(first, augment(patches, groups, tf.constant(other), **changes))


def test_bytes_and_floats_give_the_same():
    patches, groups = random_patches(8), tf.range(8)
    floats = tf.cast(patches, tf.float32)
    changes = {"affine": 0.1, "photometric": 0.2}
    assert np.array_equal(
        augment(patches, groups, SEED, **changes), augment(floats, groups, SEED, **changes)
    )


def test_a_group_is_turned_as_a_whole():
    patch = random_patches(1)[0]
    groups = np.repeat(np.arange(400), 3)
    np.random.default_rng(0).shuffle(groups)
    turned = augmentation.turn_groups(tf.stack([patch] * 1200), tf.constant(groups), SEED).numpy()

    square = patch.numpy()
    eight = {}
    for quarter in range(4):
        rotated = np.rot90(square, quarter)
        eight[rotated.tobytes()] = (quarter, False)
        eight[rotated[:, ::-1].tobytes()] = (quarter, True)
    turns = [eight[image.tobytes()] for image in turned]
    by_group = dict(zip(groups, turns, strict=True))
    assert all(by_group[group] == turn for group, turn in zip(groups, turns, strict=True))
    counts = collections.Counter(by_group.values())
    assert len(counts) == 8 and min(counts.values()) > 25 and max(counts.values()) < 80

    # A group's turns differ from step to step.
    steps = [
        augmentation.turn_groups(patch[tf.newaxis], tf.constant([5]), tf.constant([3, step]))
        for step in range(40)
    ]
    assert len({step.numpy().tobytes() for step in steps}) == 8


def test_random_numbers_fill_their_range_evenly():
    numbers = augmentation._uniform([4, 5000], SEED, 1, -2.0, 2.0).numpy()
    assert numbers.min() >= -2 and numbers.max() < 2
    counts = np.histogram(numbers, bins=20, range=(-2, 2))[0]
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5
    assert np.abs(np.corrcoef(numbers) - np.eye(4)).max() < 0.06
    other = augmentation._uniform([4, 5000], SEED, 2, -2.0, 2.0).numpy()
    assert abs(np.corrcoef(numbers.ravel(), other.ravel())[0, 1]) < 0.03


def test_affine_jitter_against_scipy():
    patches, strength = tf.cast(random_patches(5, side=9), tf.float32), 0.4
    jittered = augmentation.affine_jitter(patches, SEED, strength)
    change = augmentation._uniform([5, 2, 3], SEED, 1, -strength, strength).numpy()
    assert np.abs(change).max() > 0.3
    for patch, (xs, ys), found in zip(patches.numpy(), change, jittered.numpy(), strict=True):
        rows, columns = np.mgrid[:9, :9]
        x, y = (columns + 0.5) * 2 / 9 - 1, (rows + 0.5) * 2 / 9 - 1
        u = x + xs[0] * x + xs[1] * y + xs[2]
        v = y + ys[0] * x + ys[1] * y + ys[2]
        places = [(v + 1) * 4.5 - 0.5, (u + 1) * 4.5 - 0.5]
        expected = ndimage.map_coordinates(patch[..., 0], places, order=1, mode="nearest")
        np.testing.assert_allclose(found[..., 0], expected, atol=0.01)


def test_photometric_jitter_by_its_definition():
    patches, strength = tf.cast(random_patches(6), tf.float32), 0.5
    jittered = augmentation.photometric_jitter(patches, SEED, strength).numpy()
    change = augmentation._uniform([3, 6, 1, 1, 1], SEED, 2, -strength, strength).numpy()
    for patch, (contrast, brightness, gamma), found in zip(
        patches.numpy(), change.reshape(3, 6).T, jittered, strict=True
    ):
        mean = patch.mean()
        linear = mean + (patch - mean) * (1 + contrast) + brightness * 255 / 2
        expected = 255 * (np.clip(linear, 0, 255) / 255) ** (2**gamma)
        np.testing.assert_allclose(found, expected, atol=0.01)
