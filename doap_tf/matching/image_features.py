"""The features of one image."""

from __future__ import annotations

import dataclasses

import cv2
import numpy as np

from doap_tf.counts import count
from doap_tf.features.frames import angles, compose, keypoints_from_frames, radii
from doap_tf.metrics.distances import NORM_HAMMING, descriptor_size


@dataclasses.dataclass(frozen=True, repr=False)
class Features:
    """What an `Extractor` makes of an image: positions, scales, angles, scores and descriptors.

    Attributes:
        frames: float64 [N, 2, 3], the strongest first if they were detected; see
            `doap_tf.features.frames`. Circles unless the detector finds ellipses.
        responses: float32 [N], scores of the detector; zeros for given frames.
        descriptors: float32 [N, D], or packed bits uint8 [N, bits / 8].
        norm: `cv2.NORM_L2` or `cv2.NORM_HAMMING`.
        image_size: Width and height.
    """

    frames: np.ndarray
    responses: np.ndarray
    descriptors: np.ndarray
    norm: int
    image_size: tuple[int, int]

    def __repr__(self) -> str:
        columns = self.descriptors.shape[1] * (8 if self.norm == NORM_HAMMING else 1)
        width, height = self.image_size
        return (
            f"Features({count(len(self.frames), 'keypoint')}, "
            f"{descriptor_size(self.norm, columns)}, image of {width}×{height})"
        )

    @property
    def points(self) -> np.ndarray:
        """Centres of the frames, float64 [N, 2], pixel centres at integers."""
        return self.frames[:, :, 2]

    @property
    def scales(self) -> np.ndarray:
        """Radii of the frames in pixels, of ellipses those of circles of their area, [N]."""
        return radii(self.frames)

    @property
    def angles(self) -> np.ndarray:
        """Angles of the frames in radians, from x towards y, [N]; 0 is upright."""
        return angles(self.frames)

    def take(self, rows: np.ndarray | slice) -> Features:
        """Returns some of the features."""
        columns = ("frames", "responses", "descriptors")
        return dataclasses.replace(self, **{name: getattr(self, name)[rows] for name in columns})

    def moved(self, turn: np.ndarray) -> Features:
        """Returns the features in an image turned by quarters or mirrored.

        Args:
            turn: Map of the pixels of this image to those of the other, float64 [2, 3].
        """
        frames = compose(turn, self.frames)
        if np.linalg.det(turn[:, :2]) < 0:  # frames are not mirrored: the ellipse is the same
            frames[:, :, 1] *= -1
        width, height = np.abs(turn[:, :2]).astype(int) @ self.image_size
        return dataclasses.replace(self, frames=frames, image_size=(int(width), int(height)))

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
