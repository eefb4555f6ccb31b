"""Bringing patches to a network's input size without TensorFlow, for use."""

import functools

import numpy as np


def resize(patches: np.ndarray, size: int) -> np.ndarray:
    """Does in NumPy what `doap_tf.preprocessing.resize_patches` does in a graph.

    Args:
        patches: uint8 or float, [N, H, H, 1]; values keep their scale.
        size: Side S of the result.

    Returns:
        float32 [N, S, S, 1].
    """
    weights = resizing_weights(patches.shape[1], size)
    grid = weights @ patches[..., 0].astype(np.float32) @ weights.T
    return grid[..., np.newaxis]


@functools.lru_cache(maxsize=16)
def resizing_weights(side: int, size: int) -> np.ndarray:
    """Shares [S, H] of the old pixels in the new ones: triangles, wide enough not to alias."""
    scale = side / size
    distances = np.arange(side) + 0.5 - (np.arange(size)[:, np.newaxis] + 0.5) * scale
    shares = np.maximum(0, 1 - np.abs(distances) / max(scale, 1))
    return (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32)
