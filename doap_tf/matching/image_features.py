"""The features of one image."""

import dataclasses

import cv2
import numpy as np

from doap_tf.features.frames import keypoints_from_frames
from doap_tf.metrics import NORM_HAMMING


@dataclasses.dataclass(frozen=True)
class Features:
    """Frames and descriptors of one image.

    Attributes:
        frames: float64 [N, 2, 3], the strongest first if they were detected.
        responses: float32 [N] of the detector; zeros for given frames.
        descriptors: float32 [N, D], or packed bits uint8 [N, bits / 8].
        norm: `cv2.NORM_L2` or `cv2.NORM_HAMMING`.
        image_size: Width and height.
    """

    frames: np.ndarray
    responses: np.ndarray
    descriptors: np.ndarray
    norm: int
    image_size: tuple[int, int]

    @property
    def points(self) -> np.ndarray:
        """Centres of the frames, float64 [N, 2], pixel centres at integers."""
        return self.frames[:, :, 2]

    @property
    def keypoints(self) -> list[cv2.KeyPoint]:
        """The frames as OpenCV keypoints, size = 2 · radius; ellipses become circles."""
        return keypoints_from_frames(self.frames, self.responses)


def unit_rows(descriptors: np.ndarray, norm: int) -> np.ndarray:
    """Returns descriptors as float32 rows [N, D] of unit length, which other programs expect.

    Bits become ±1/√bits: the order by angle is then the order by Hamming distance.
    """
    if norm == NORM_HAMMING:
        signs = np.unpackbits(descriptors, axis=1).astype(np.float32) * 2 - 1
        return signs / np.sqrt(np.float32(signs.shape[1]))
    lengths = np.linalg.norm(descriptors, axis=1, keepdims=True)
    return descriptors / np.maximum(lengths, 1e-12)
