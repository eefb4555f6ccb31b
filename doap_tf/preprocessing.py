"""Bringing patches to a network's input size in a graph, for training and serving."""

import tensorflow as tf


def resize_patches(patches: tf.Tensor, size: int) -> tf.Tensor:
    """Resizes patches with anti-aliasing.

    Args:
        patches: uint8 or float, [N, H, W, 1]; values keep their scale.
        size: Side S of the result.

    Returns:
        float32 [N, S, S, 1]; patches that have this size already are only cast.
    """
    patches = tf.cast(patches, tf.float32)
    if patches.shape[1] == patches.shape[2] == size:
        return patches
    return tf.image.resize(patches, [size, size], method="bilinear", antialias=True)
