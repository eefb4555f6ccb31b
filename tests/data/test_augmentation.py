import collections

import numpy as np
import tensorflow as tf

from doap_tf.data import turn_groups

SEED = tf.constant([3, 17])


def random_patches(count, side=12):
    patches = np.random.default_rng(0).integers(0, 256, [count, side, side, 1], np.uint8)
    return tf.constant(patches)


def test_xla_changes_nothing():
    patches, groups = random_patches(24), tf.range(24) // 3

    def turned(patches, seed):
        return turn_groups(patches, groups, seed)

    plain = turned(patches, SEED)
    assert np.array_equal(plain, tf.function(turned, jit_compile=True)(patches, SEED))
    assert not np.array_equal(plain, patches)


def test_the_seed_decides():
    patches, groups = random_patches(8), tf.range(8)
    first = turn_groups(patches, groups, SEED)
    assert np.array_equal(first, turn_groups(patches, groups, SEED))
    for other in ([3, 18], [4, 17]):
        assert not np.array_equal(first, turn_groups(patches, groups, tf.constant(other)))


def test_a_group_is_turned_as_a_whole():
    patch = random_patches(1)[0]
    groups = np.repeat(np.arange(400), 3)
    np.random.default_rng(0).shuffle(groups)
    turned = turn_groups(tf.stack([patch] * 1200), tf.constant(groups), SEED).numpy()

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
        turn_groups(patch[tf.newaxis], tf.constant([5]), tf.constant([3, step]))
        for step in range(40)
    ]
    assert len({step.numpy().tobytes() for step in steps}) == 8
