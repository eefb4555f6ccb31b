"""Features as one of OpenCV's own algorithms detects and describes them."""

import os
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.descriptors.opencv_sift import sift_keypoints
from doap_tf.errors import InputError
from doap_tf.features.detectors import (
    SMALLEST_SIDE,
    Detector,
    check_mask,
    opencv_name,
    radius_per_size,
)
from doap_tf.features.frames import frames_from_keypoints, keypoints_from_frames, scale_frames
from doap_tf.matching.component_settings import component_settings
from doap_tf.matching.image_features import Features
from doap_tf.matching.opencv_copies import HoldsAlgorithms
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from doap_tf.readers.images import ImageLike, as_grey


class OpenCVExtractor(HoldsAlgorithms):
    """A `cv2.Feature2D` that detects and describes, such as AKAZE, as an `Extractor`.

    Args:
        feature2d: Of OpenCV.
        max_keypoints: Keep this many of the strongest keypoints; None or 0 for all.
    """

    upright = False

    def __init__(self, feature2d: cv2.Feature2D, max_keypoints: int | None = None):
        self.feature2d = feature2d
        self.max_keypoints = max_keypoints or None
        self.name = type(feature2d).__name__
        self.norm = feature2d.defaultNorm()
        if not feature2d.descriptorSize():
            raise InputError(
                f"{self.name} detects, but does not describe: give it as the detector of a "
                "DescriptorExtractor."
            )
        if self.norm not in (NORM_L2, NORM_HAMMING):
            raise InputError(f"{self.name} must be compared by L2 or Hamming, not {self.norm}.")

    def __repr__(self) -> str:
        return f"OpenCVExtractor({self.name}, max_keypoints={self.max_keypoints})"

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first."""
        grey = as_grey(image)
        if mask is not None:
            check_mask(mask, grey)
            mask = (np.asarray(mask) != 0).astype(np.uint8)
        keypoints: Sequence[cv2.KeyPoint] = ()
        rows = None
        if min(grey.shape) >= SMALLEST_SIDE:
            keypoints, rows = self.feature2d.detectAndCompute(grey, mask)
        if rows is None:
            kind = np.uint8 if self.norm == NORM_HAMMING else np.float32
            rows = np.zeros((0, self.feature2d.descriptorSize()), kind)
        frames = frames_from_keypoints(keypoints, radius_per_size(self.feature2d))
        responses = np.array([keypoint.response for keypoint in keypoints], np.float32)
        features = Features(frames, responses, rows, self.norm, grey.shape[::-1])
        return features.take(np.argsort(-responses, kind="stable")[: self.max_keypoints])

    def describe(
        self, image: ImageLike, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Refuses: OpenCV describes by levels of its own, which frames do not have."""
        raise InputError(
            f"{self.name} describes only keypoints of its own: use a DescriptorExtractor."
        )

    def settings(self) -> dict[str, Any]:
        """As for `Extractor`."""
        return {"max_keypoints": self.max_keypoints, **component_settings(self.feature2d)}


def opencv_keypoints(
    detector: str | os.PathLike | Detector,
    frames: np.ndarray,
    shape: tuple[int, ...],
    responses: np.ndarray,
) -> list[cv2.KeyPoint]:
    """Returns frames [N, 2, 3] as keypoints of the size that OpenCV's own detector sets."""
    if opencv_name(detector) in ("dog", "dog_dense"):
        return sift_keypoints(frames, shape, responses)
    own_size = scale_frames(frames, 0.5 / radius_per_size(detector))
    return keypoints_from_frames(own_size, responses)
