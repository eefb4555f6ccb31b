"""What makes the features of an image: of patches, by a network of whole images, or by OpenCV."""

import os
from collections.abc import Sequence
from typing import Any, Protocol

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.detectors import Detector
from doap_tf.matching.descriptor_extractor import MAX_KEYPOINTS, DescriptorExtractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.opencv_extractor import OpenCVExtractor


class Extractor(Protocol):
    """Detects and describes: `DescriptorExtractor`, `OpenCVExtractor`, or a class of your own.

    An extractor that detects before it describes may have `detect_frames(image)`, as
    `DescriptorExtractor` has: a collection then detects in one image while it describes another.
    """

    @property
    def name(self) -> str:
        """Identifies it, with the settings, in stores and reports."""

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`, by which its descriptors are compared."""

    def extract(self, image: np.ndarray, mask: np.ndarray | None = None) -> Features:
        """Detects and describes in an image as `read_image` returns it, where a mask is not 0."""

    def describe(
        self, image: np.ndarray, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Describes given affine frames [N, 2, 3], in order; without responses they are zero."""

    def settings(self) -> dict[str, Any]:
        """Returns all that the features depend on, for JSON."""


def as_extractor(
    descriptor: Any,
    detector: str | os.PathLike | Detector = "learned",
    max_keypoints: int | None = MAX_KEYPOINTS,
    magnification: float | Sequence[float] | None = None,
) -> Extractor:
    """Returns an extractor as it is, a `cv2.Feature2D` as one, and a `DescriptorExtractor` else."""
    if isinstance(descriptor, cv2.Feature2D):
        descriptor = OpenCVExtractor(descriptor, max_keypoints)
    if not hasattr(descriptor, "extract"):
        return DescriptorExtractor(descriptor, detector, max_keypoints, magnification)
    if detector != "learned" or magnification is not None:
        raise InputError(
            f"{descriptor.name} describes keypoints of its own: give neither a detector nor a "
            "magnification."
        )
    return descriptor
