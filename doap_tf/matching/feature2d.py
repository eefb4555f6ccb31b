"""The interface of `cv2.Feature2D` for extractors."""

import abc
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.features.detectors import radius_per_size
from doap_tf.features.frames import frames_from_keypoints
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.opencv_extractor import opencv_keypoints
from doap_tf.metrics import NORM_HAMMING
from doap_tf.readers.images import ImageLike


class Feature2D(Extractor, abc.ABC):
    """An `Extractor` that takes the place of a `cv2.Feature2D`.

    Attributes:
        detector: Whose `KeyPoint.size` is meant; see `doap_tf.features.detectors`. For all but
            OpenCV's own it is twice the radius.
        upright: Whether descriptors stand upright, whatever the angle of a keypoint.
    """

    name: str = ""
    detector: Any = None
    upright: bool = True

    @property
    @abc.abstractmethod
    def dimension(self) -> int:
        """Number of values or bits of a descriptor."""

    def detect(self, image: ImageLike, mask: np.ndarray | None = None) -> list[cv2.KeyPoint]:
        """Detects only."""
        return self._keypoints(self.extract(image, mask))

    def compute(
        self, image: ImageLike, keypoints: Sequence[cv2.KeyPoint] | np.ndarray
    ) -> tuple[Sequence[cv2.KeyPoint] | np.ndarray, np.ndarray]:
        """Describes given keypoints, or affine frames [N, 2, 3].

        Returns:
            The keypoints or frames as given, and one row of descriptors for each, in order. Unlike
            OpenCV's extractors this one drops none and returns [0, D], not None, for no keypoints.
        """
        if isinstance(keypoints, np.ndarray):
            frames = keypoints
        else:
            frames = frames_from_keypoints(keypoints, radius_per_size(self.detector))
        return keypoints, self.describe(image, frames).descriptors

    def detectAndCompute(
        self,
        image: ImageLike,
        mask: np.ndarray | None = None,
        keypoints: Sequence[cv2.KeyPoint] | np.ndarray = (),
        useProvidedKeypoints: bool = False,
    ) -> tuple[Sequence[cv2.KeyPoint] | np.ndarray, np.ndarray]:
        """Detects and describes, or only describes given keypoints; see `detect`, `compute`."""
        if useProvidedKeypoints:
            return self.compute(image, keypoints)
        features = self.extract(image, mask)
        return self._keypoints(features), features.descriptors

    def empty(self) -> bool:
        """Whether there is nothing to describe with: never."""
        return False

    def getDefaultName(self) -> str:
        """The name under which OpenCV would store the settings."""
        return f"Feature2D.{self.name}"

    def descriptorSize(self) -> int:
        """Number of columns of the descriptors: values, or bytes."""
        return self.dimension // 8 if self.norm == NORM_HAMMING else self.dimension

    def descriptorType(self) -> int:
        """`cv2.CV_8U` or `cv2.CV_32F`."""
        return cv2.CV_8U if self.norm == NORM_HAMMING else cv2.CV_32F

    def defaultNorm(self) -> int:
        """`norm`, under OpenCV's name."""
        return self.norm

    def _keypoints(self, features: Features) -> list[cv2.KeyPoint]:
        shape = features.image_size[::-1]
        return opencv_keypoints(self.detector, features.frames, shape, features.responses)
