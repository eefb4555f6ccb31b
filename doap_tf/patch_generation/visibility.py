"""Whether a place of one image can be seen in another at all."""

from __future__ import annotations

import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION

#: Correlation of two looks from which on they show the same place. What blur, darkness or a passing
#: car hides beyond that teaches nothing.
VISIBLE = 0.4

_SIZE = 16
_CONTRAST = 5.0  # standard deviation in grey levels below which a patch correlates less and less


def looks(image: np.ndarray, frames: np.ndarray) -> np.ndarray:
    """What HPatches' patches at frames [N, 2, 3] show of a uint8 image: vectors, float32 [N, 256].

    The dot product of two is the correlation coefficient of their patches, made smaller where one
    has little contrast.
    """
    patches = Pyramid(image).cut(frames, _SIZE, HPATCHES_MAGNIFICATION)
    vectors = patches.reshape(len(frames), _SIZE**2).astype(np.float32)
    vectors -= vectors.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, _CONTRAST * _SIZE)
