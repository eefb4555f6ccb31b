"""Detecting and describing the features of an image, in the manner of `cv2.Feature2D`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import cv2
import numpy as np

from doap_tf.descriptors import load
from doap_tf.descriptors.opencv_sift import SiftDescriptor, sift_keypoints
from doap_tf.descriptors.pooled_descriptor import PooledDescriptor
from doap_tf.errors import InputError
from doap_tf.features.detectors import DETECTORS, RADIUS_PER_SIZE, detect
from doap_tf.features.frames import (
    as_frames,
    frames_from_keypoints,
    keypoints_from_frames,
    scale_frames,
)
from doap_tf.matching.image_features import Features
from doap_tf.metrics import NORM_HAMMING
from doap_tf.readers.images import as_grey


class FrameDescriptor(Protocol):
    """What describes frames of an image: patches cut and described, or OpenCV's own SIFT."""

    norm: int
    dimension: int

    def describe_frames(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Rows, one a frame, of frames [N, 2, 3] in a grey image, uint8 [H, W]."""


class DescriptorExtractor:
    """Finds and describes local features; drops into OpenCV code where a `cv2.Feature2D` stood.

    Args:
        descriptor: A name or path for `doap_tf.from_pretrained`, a `doap_tf.Descriptor`, or any
            object like one; `"sift"` and `"rootsift"` are OpenCV's own, the other names of
            `doap_tf.descriptors.HANDCRAFTED` describe the same patches as a network would.
        detector: One of `doap_tf.features.detectors.DETECTORS`. It also says whose keypoints
            `compute` is given, because detectors mean different things by `KeyPoint.size`.
        max_keypoints: Detect this many of the strongest.
        magnification: Half the side of a patch over the frame's radius, if another than the
            descriptor was trained for. With several, such as `(8, 28)`, each feature is described
            at all of them, at their cost, and its descriptors are pooled: see `PooledDescriptor`.
        oriented: Whether detected frames follow the dominant gradient or stand upright.
        batch_size: How many patches run through the network at a time.

    Example:
        >>> extractor = doap_tf.DescriptorExtractor("doap-128")
        >>> keypoints, descriptors = extractor.detectAndCompute(cv2.imread("a.jpg"), None)
        >>> matcher = cv2.BFMatcher(extractor.defaultNorm(), crossCheck=True)
    """

    def __init__(
        self,
        descriptor: Any,
        detector: str = "dog",
        max_keypoints: int | None = None,
        magnification: float | Sequence[float] | None = None,
        oriented: bool = True,
        batch_size: int = 1024,
    ):
        if detector not in DETECTORS:
            raise InputError(f"unknown detector {detector!r}; known are {', '.join(DETECTORS)}.")
        if max_keypoints is not None and max_keypoints < 1:
            raise InputError(f"max_keypoints must be at least 1, not {max_keypoints}.")
        self.name = str(descriptor) if _is_name(descriptor) else type(descriptor).__name__
        self.detector = detector
        self.max_keypoints = max_keypoints
        self.oriented = oriented
        self.describer: FrameDescriptor
        # OpenCV's own SIFT knows no ellipses: theirs is described on patches, as by a network.
        if self.name in ("sift", "rootsift") and not detector.endswith("affine"):
            if magnification is not None:
                raise InputError(f"{self.name} is OpenCV's own: its magnification is fixed.")
            self.describer = SiftDescriptor(root=self.name == "rootsift")
        else:
            self.describer = PooledDescriptor(load(descriptor), magnification, batch_size)

    def extract(self, image: np.ndarray, mask: np.ndarray | None = None) -> Features:
        """Detects and describes; keeps the affine frames that `cv2.KeyPoint`s cannot hold.

        Args:
            image: Anything that `doap_tf.matching.as_grey` takes.
            mask: uint8 [H, W]; nothing is detected where it is zero.
        """
        image = as_grey(image)
        frames, responses = self._detect(image, mask)
        return self._features(image, frames, responses)

    def describe(self, image: np.ndarray, frames: np.ndarray) -> Features:
        """Describes given affine frames [N, 2, 3], in order."""
        frames = as_frames(frames)
        return self._features(as_grey(image), frames, np.zeros(len(frames), np.float32))

    def detect(self, image: np.ndarray, mask: np.ndarray | None = None) -> list[cv2.KeyPoint]:
        """Detects only, with `KeyPoint.size` as OpenCV's detector of that name has it."""
        image = as_grey(image)
        return self._keypoints(image.shape, *self._detect(image, mask))

    def compute(
        self, image: np.ndarray, keypoints: Sequence[cv2.KeyPoint] | np.ndarray
    ) -> tuple[Sequence[cv2.KeyPoint] | np.ndarray, np.ndarray]:
        """Describes given keypoints, or affine frames [N, 2, 3].

        Returns:
            What was given, and one row of descriptors for each, in order: unlike OpenCV's
            extractors this one drops none, and gives [0, D] instead of None where there are none.
        """
        if isinstance(keypoints, np.ndarray):
            frames = keypoints
        else:
            frames = frames_from_keypoints(keypoints, self._radius_per_size)
        return keypoints, self.describe(image, frames).descriptors

    def detectAndCompute(
        self, image: np.ndarray, mask: np.ndarray | None = None
    ) -> tuple[list[cv2.KeyPoint], np.ndarray]:
        """Detects and describes, see `detect` and `extract`."""
        features = self.extract(image, mask)
        keypoints = self._keypoints(features.image_size[::-1], features.frames, features.responses)
        return keypoints, features.descriptors

    def descriptorSize(self) -> int:
        """Columns of the descriptors: values, or bytes."""
        binary = self.describer.norm == NORM_HAMMING
        return self.describer.dimension // 8 if binary else self.describer.dimension

    def descriptorType(self) -> int:
        """`cv2.CV_8U` or `cv2.CV_32F`."""
        return cv2.CV_8U if self.describer.norm == NORM_HAMMING else cv2.CV_32F

    def defaultNorm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""
        return self.describer.norm

    def settings(self) -> dict[str, Any]:
        """What the features depend on, for JSON."""
        described = getattr(self.describer, "descriptor", None)
        return {
            "descriptor": self.name,
            "weights_sha256": getattr(described, "weights_sha256", None),
            "magnification": getattr(self.describer, "magnification", None),
            "detector": self.detector,
            "max_keypoints": self.max_keypoints,
            "oriented": self.oriented,
        }

    @property
    def _radius_per_size(self) -> float:
        return RADIUS_PER_SIZE.get(self.detector, 0.5)

    def _detect(self, image: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return detect(image, self.detector, self.max_keypoints, self.oriented, mask)

    def _features(self, image: np.ndarray, frames: np.ndarray, responses: np.ndarray) -> Features:
        height, width = image.shape
        rows = self.describer.describe_frames(image, frames)
        return Features(frames, responses, rows, self.describer.norm, (width, height))

    def _keypoints(
        self, shape: tuple[int, ...], frames: np.ndarray, responses: np.ndarray
    ) -> list[cv2.KeyPoint]:
        if self.detector == "dog":
            return sift_keypoints(frames, shape, responses)
        own_size = scale_frames(frames, 0.5 / self._radius_per_size)
        return keypoints_from_frames(own_size, responses)


def _is_name(descriptor: Any) -> bool:
    return isinstance(descriptor, (str, os.PathLike))
