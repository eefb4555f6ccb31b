"""OpenCV's own SIFT and RootSIFT on whole images."""

import cv2
import numpy as np

from doap_tf.features.frames import keypoints_from_frames
from doap_tf.metrics import NORM_L2

_FIRST_SIGMA = 1.6
_LAYERS = 3


def sift_keypoints(
    frames: np.ndarray, shape: tuple[int, ...], responses: np.ndarray | None = None
) -> list[cv2.KeyPoint]:
    """Returns `cv2.KeyPoint`s of frames with the octave and layer that SIFT would store.

    `SIFT.compute` chooses the image to read gradients from by these, not by the keypoint's size.

    Args:
        frames: [N, 2, 3].
        shape: Shape of the image; SIFT has no octaves smaller than two pixels.
        responses: [N], stored in the keypoints.
    """
    last_octave = max(-1, round(float(np.log2(min(shape[:2])))) - 2)
    keypoints = keypoints_from_frames(frames, responses)
    for keypoint in keypoints:
        # SIFT's σ is 1.6 · 2^(octave + (layer + offset) / 3), layer 1…3, offset within ±½.
        step = round(_LAYERS * float(np.log2(max(keypoint.size, 1e-6) / (2 * _FIRST_SIGMA))))
        octave = min(max(-1, (step - 1) // _LAYERS), last_octave)
        layer = min(max(1, step - _LAYERS * octave), _LAYERS)
        keypoint.octave = (octave & 255) | (layer << 8)
    return keypoints


class SiftDescriptor:
    """SIFT from the gradients of the whole image, as `cv2.SIFT.compute` does it.

    Args:
        root: Whether to return RootSIFT: square roots of rows that sum to one.
    """

    norm = NORM_L2
    dimension = 128

    def __init__(self, root: bool):
        self.root = root

    def describe_frames(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Describes frames [N, 2, 3] of a grey image, ellipses as the circles of their area.

        Returns:
            float32 [N, 128].
        """
        if not len(frames):
            return np.zeros((0, self.dimension), np.float32)
        # Precise upscaling, as in the detector of doap_tf.features.
        sift = cv2.SIFT.create(enable_precise_upscale=True)
        _, rows = sift.compute(image, sift_keypoints(frames, image.shape))
        if not self.root:
            return rows
        return np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-7))
