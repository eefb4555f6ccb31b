"""Random changes of a batch of patches inside the graph, reproducible from a seed."""

import tensorflow as tf


def augment(
    patches: tf.Tensor,
    groups: tf.Tensor,
    seed: tf.Tensor,
    turn: bool = True,
    affine: float = 0.0,
    photometric: float = 0.0,
) -> tf.Tensor:
    """Changes a batch at random: the same seed gives the same change, with and without XLA.

    Args:
        patches: uint8 or float [M, S, S, 1], values in [0, 255].
        groups: int32 [M], the patches' groups.
        seed: int [2], such as (seed of the run, step).
        turn: Whether groups are flipped and turned by quarters, see `turn_groups`.
        affine: Strength of `affine_jitter`; 0 for none.
        photometric: Strength of `photometric_jitter`; 0 for none.

    Returns:
        float32 [M, S, S, 1], values in [0, 255].
    """
    patches = tf.cast(patches, tf.float32)
    if turn:
        patches = turn_groups(patches, groups, seed)
    if affine:
        patches = affine_jitter(patches, seed, affine)
    if photometric:
        patches = photometric_jitter(patches, seed, photometric)
    return patches


def turn_groups(patches: tf.Tensor, groups: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """One of the eight flips and quarter turns for each group: turned apart it would not match.

    Args:
        patches: [M, S, S, 1] of any type.
        groups: int32 [M].
        seed: int [2].
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


def affine_jitter(patches: tf.Tensor, seed: tf.Tensor, strength: float) -> tf.Tensor:
    """Moves each patch by a small random affine map; beyond its border the border is repeated.

    Args:
        patches: float32 [M, S, S, 1].
        seed: int [2].
        strength: Each entry of the 2×3 map differs from the identity's by up to this, in units of
            half a patch: 0.1 moves its corners by up to 0.15 S along either axis.
    """
    count, size = tf.shape(patches)[0], patches.shape[1]
    change = _uniform([count, 2, 3], seed, 1, -strength, strength)
    axis = (tf.range(size, dtype=tf.float32) + 0.5) * (2 / size) - 1
    x, y = tf.meshgrid(axis, axis)
    corners = tf.stack([tf.reshape(x, [-1]), tf.reshape(y, [-1]), tf.ones(size * size)])
    moved = corners[:2] + tf.linalg.matmul(change, corners)  # [M, 2, S·S]
    pixel = tf.clip_by_value((moved + 1) * (size / 2) - 0.5, 0.0, size - 1.0)
    before = tf.minimum(tf.floor(pixel), size - 2.0)
    weight = pixel - before
    column, row = tf.unstack(tf.cast(before, tf.int32), axis=1)
    right, down = tf.unstack(weight, axis=1)

    flat = tf.reshape(patches, [count, size * size])
    place = row * size + column

    def across(place: tf.Tensor) -> tf.Tensor:
        here, there = (tf.gather(flat, place + step, batch_dims=1) for step in (0, 1))
        return here + right * (there - here)

    above, below = across(place), across(place + size)
    return tf.reshape(above + down * (below - above), tf.shape(patches))


def photometric_jitter(patches: tf.Tensor, seed: tf.Tensor, strength: float) -> tf.Tensor:
    """Changes contrast, brightness and gamma of each patch.

    A network that standardises its input sees nothing of the first two but what they drive
    into black or white; gamma it does see.

    Args:
        patches: float32 [M, S, S, 1], values in [0, 255].
        seed: int [2].
        strength: Contrast changes by a factor up to 1 ± strength, brightness by up to
            ± 255 · strength / 2, gamma by a factor of 2 to the power of up to ± strength.
    """
    change = _uniform([3, tf.shape(patches)[0], 1, 1, 1], seed, 2, -strength, strength)
    contrast, brightness, gamma = tf.unstack(change)
    mean = tf.reduce_mean(patches, axis=[1, 2], keepdims=True)
    patches = mean + (1 + contrast) * (patches - mean) + 127.5 * brightness
    return 255 * tf.pow(tf.clip_by_value(patches / 255, 0.0, 1.0), tf.pow(2.0, gamma))


def _uniform(shape: list, seed: tf.Tensor, stream: int, low: float, high: float) -> tf.Tensor:
    """Random numbers of one of several streams of a seed.

    TensorFlow's own stateless generators give other numbers under XLA than without.
    """
    shape = tf.stack(shape)
    bits = _hash(tf.range(tf.reduce_prod(shape)), tf.concat([seed, [stream]], axis=0))
    bits = tf.bitwise.right_shift(bits, tf.constant(8, tf.uint32))  # as many as a float32 holds
    return low + (high - low) * tf.reshape(tf.cast(bits, tf.float32) / 2**24, shape)


def _hash(numbers: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Mixes each number with all of the seed to 32 bits that look random, uint32.

    So a group gets its own random bits without knowing which other groups the batch holds.
    """
    mixed = tf.cast(numbers, tf.uint32)
    for part in tf.unstack(tf.cast(seed, tf.uint32)):
        # The finaliser of MurmurHash3.
        mixed = tf.bitwise.bitwise_xor(mixed, part)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
            shifted = tf.bitwise.right_shift(mixed, tf.constant(shift, tf.uint32))
            mixed = tf.bitwise.bitwise_xor(mixed, shifted) * tf.constant(factor, tf.uint32)
    return mixed
