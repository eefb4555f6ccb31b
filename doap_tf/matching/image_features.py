"""The features of one image."""

import dataclasses

import cv2
import numpy as np

from doap_tf.features.frames import keypoints_from_frames


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
