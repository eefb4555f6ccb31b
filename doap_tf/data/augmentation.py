"""Random flips and quarter turns of a batch inside the graph, reproducible from a seed."""

import tensorflow as tf


def turn_groups(patches: tf.Tensor, groups: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Applies one of the eight flips and quarter turns to each group, the same to all its patches.

    The same seed gives the same turns, with and without XLA.

    Args:
        patches: [M, S, S, 1] of any type.
        groups: int32 [M], the groups of the patches.
        seed: int [2], such as (seed of the run, step).

    Returns:
        [M, S, S, 1] of the same type.
    """
    choice = _hash(groups, seed)[:, tf.newaxis, tf.newaxis, tf.newaxis]
    for bit, flipped in enumerate(
        (
            lambda x: tf.reverse(x, [1]),
            lambda x: tf.reverse(x, [2]),
            lambda x: tf.transpose(x, [0, 2, 1, 3]),
        )
    ):
        chosen = tf.bitwise.bitwise_and(choice, tf.constant(1 << bit, tf.uint32)) > 0
        patches = tf.where(chosen, flipped(patches), patches)
    return patches


def _hash(numbers: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Mixes each number with the whole seed into 32 pseudo-random bits, uint32.

    A group gets the same bits whatever other groups the batch holds. TensorFlow's own stateless
    generators return other numbers under XLA than without.
    """
    mixed = tf.cast(numbers, tf.uint32)
    for part in tf.unstack(tf.cast(seed, tf.uint32)):
        # The finaliser of MurmurHash3.
        mixed = tf.bitwise.bitwise_xor(mixed, part)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            shifted = tf.bitwise.right_shift(mixed, tf.constant(shift, tf.uint32))
            mixed = tf.bitwise.bitwise_xor(mixed, shifted) * tf.constant(factor, tf.uint32)
    return mixed
