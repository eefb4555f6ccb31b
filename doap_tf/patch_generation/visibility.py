"""Whether a place in one image is visible in another."""

import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION

#: Correlation from which on two patches count as the same place by default, and length of a vector
#: from which on a patch has contrast.
MIN_CORRELATION = 0.4

_SIZE = 16
_CONTRAST = 5.0  # standard deviation in grey levels below which a patch correlates less and less


def appearance_vectors(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Returns vectors whose dot products are the correlation coefficients of HPatches' patches.

    They are shorter for patches of little contrast.

    Args:
        image: uint8 [H, W].
        frames: [N, 2, 3].

    Returns:
        float32 [N, 256].
    """
    patches = Pyramid(image).cut(frames, _SIZE, HPATCHES_MAGNIFICATION)
    vectors = patches.reshape(len(frames), _SIZE**2).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, _CONTRAST * _SIZE)


def has_contrast(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """Returns whether patches at frames [N, 2, 3] show anything, bool [N]."""
    return _is_long(appearance_vectors(image, frames))


def shows(known: np.ndarray, seen: np.ndarray, min_correlation: float) -> np.ndarray:
    """Returns whether patches show something, and the same as others do.

    Args:
        known: appearance vectors [..., 256] of places.
        seen: those of the places in images that may hide them, of a shape to broadcast with.
        min_correlation: from which on both are the same.

    Returns:
        bool [...].
    """
    alike = np.einsum("...p,...p->...", known, seen) >= min_correlation
    return _is_long(known) & _is_long(seen) & alike


def _is_long(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors, axis=-1) >= MIN_CORRELATION
