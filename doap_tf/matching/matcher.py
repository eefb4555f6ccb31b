"""Matching two images, or their features, and verifying the matches."""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.detectors import Detector
from doap_tf.matching.descriptor_extractor import MAX_KEYPOINTS, DescriptorExtractor
from doap_tf.matching.descriptor_matching import check_method, match_descriptors
from doap_tf.matching.geometry import Verification, as_intrinsics, check_geometry, verify
from doap_tf.matching.image_features import Features


@dataclasses.dataclass(frozen=True)
class PairMatches:
    """The features of two images, their matches, and the geometry that the matches agree on.

    Attributes:
        features1, features2: Features of the two images.
        indices: int64 [M, 2], rows of the first and the second features.
        distances: float32 [M], between the descriptors.
        geometry: The geometry estimated; None if the matches were not verified.
        model: float64 [3, 3] from the first image to the second, or None if none was found.
        inliers: bool [M]; all of them if the matches were not verified.
        residuals: float64 [M] in pixels; zeros if the matches were not verified.
    """

    features1: Features
    features2: Features
    indices: np.ndarray
    distances: np.ndarray
    geometry: str | None
    model: np.ndarray | None
    inliers: np.ndarray
    residuals: np.ndarray

    @property
    def points1(self) -> np.ndarray:
        """Positions of the matches in the first image, float64 [M, 2]."""
        return self.features1.points[self.indices[:, 0]]

    @property
    def points2(self) -> np.ndarray:
        """Positions of the matches in the second image, float64 [M, 2]."""
        return self.features2.points[self.indices[:, 1]]


@dataclasses.dataclass(frozen=True)
class Matcher:
    """Matches features and verifies the matches.

    Args:
        method: One of `METHODS`; see `match_descriptors`.
        ratio: Lowe's ratio, for the methods that use it.
        geometry: One of `GEOMETRIES`, or None to leave matches unverified; see `verify`.
        threshold: Pixels within which a match is an inlier.
        intrinsics1, intrinsics2: Camera matrices [3, 3], for essential matrices; by default the
            second is the same as the first.
        seed: Seed of the random samples of the estimation.
        estimator: One of `ESTIMATORS`, which estimates the geometry.
    """

    method: str = "mutual"
    ratio: float = 0.8
    geometry: str | None = "homography"
    threshold: float = 3.0
    intrinsics1: np.ndarray | None = None
    intrinsics2: np.ndarray | None = None
    seed: int = 0
    estimator: str = "magsac"

    def __post_init__(self):
        check_method(self.method, self.ratio)
        if self.geometry is not None:
            check_geometry(self.geometry, self.threshold, self.intrinsics1, self.estimator)
        for name in ("intrinsics1", "intrinsics2"):
            if getattr(self, name) is not None:
                as_intrinsics(getattr(self, name), name)

    def settings(self) -> dict[str, Any]:
        """Returns what the matches depend on, for JSON."""
        values = dataclasses.asdict(self)
        if "ratio" not in self.method:
            del values["ratio"]
        if self.geometry is None:
            for name in ("threshold", "intrinsics1", "intrinsics2", "seed", "estimator"):
                del values[name]
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }

    def match(self, features1: Features, features2: Features) -> PairMatches:
        """Matches two images; without features on either side the result is empty."""
        if features1.norm != features2.norm:
            raise InputError("features of different descriptors cannot be matched.")
        indices, distances = match_descriptors(
            features1.descriptors, features2.descriptors, features1.norm, self.method, self.ratio
        )
        points1, points2 = features1.points[indices[:, 0]], features2.points[indices[:, 1]]
        if self.geometry is None:
            every = np.ones(len(indices), bool)
            verification = Verification(None, every, np.zeros(len(indices)))
        else:
            verification = verify(
                points1,
                points2,
                self.geometry,
                self.threshold,
                self.intrinsics1,
                self.intrinsics2,
                self.seed,
                self.estimator,
                distances,
            )
        return PairMatches(features1, features2, indices, distances, self.geometry, *verification)


def match_images(
    image1: np.ndarray,
    image2: np.ndarray,
    descriptor: Any,
    detector: str | os.PathLike | Detector = "learned",
    max_keypoints: int | None = MAX_KEYPOINTS,
    magnification: float | Sequence[float] | None = None,
    method: str = "mutual",
    ratio: float = 0.8,
    geometry: str | None = "homography",
    threshold: float = 3.0,
    intrinsics1: np.ndarray | None = None,
    intrinsics2: np.ndarray | None = None,
    seed: int = 0,
    estimator: str = "magsac",
) -> PairMatches:
    """Detects, describes, matches and verifies.

    To use an image more than once, make a `DescriptorExtractor` and a `Matcher`.

    Args:
        image1, image2: Anything that `doap_tf.matching.as_grey` takes; colours in OpenCV's order.
        descriptor: As for `DescriptorExtractor`: a name such as `"doap-128"` or `"rootsift"`, a
            path, or a descriptor.
        detector, max_keypoints, magnification: As for `DescriptorExtractor`.
        method, ratio, geometry, threshold, intrinsics1, intrinsics2, seed, estimator: As for
            `Matcher`.

    Returns:
        Keypoints with their descriptors, matches, inliers, residuals and the estimated model.

    Example:
        >>> pair = doap_tf.match_images(cv2.imread("a.jpg"), cv2.imread("b.jpg"), "doap-128")
        >>> pair.model, pair.points1[pair.inliers], pair.points2[pair.inliers]
    """
    matcher = Matcher(method, ratio, geometry, threshold, intrinsics1, intrinsics2, seed, estimator)
    extractor = DescriptorExtractor(descriptor, detector, max_keypoints, magnification)
    return matcher.match(extractor.extract(image1), extractor.extract(image2))
