"""Whether a place in one image is visible in another."""

import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION

#: Correlation from which on two patches count as the same place. Places that blur, darkness or a
#: passing car hides beyond that are useless for training.
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
    vectors = appearance_vectors(image, frames)
    return np.linalg.norm(vectors, axis=1) >= MIN_CORRELATION
