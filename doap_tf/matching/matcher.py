"""Matching the features of two images and verifying the matches."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.matching.descriptor_matching import check_method, match_descriptors
from doap_tf.matching.geometry import Verification, as_intrinsics, check_geometry, verify
from doap_tf.matching.image_features import Features


@dataclasses.dataclass(frozen=True)
class PairMatches:
    """Two images' features, which of them match, and the geometry that the matches agree on.

    Attributes:
        features1, features2: Of the two images.
        indices: int64 [M, 2], rows of the first and of the second features.
        distances: float32 [M], between the descriptors.
        geometry: What was estimated; None if the matches were not verified.
        model: float64 [3, 3] from the first image to the second, or None if there is none.
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
        """Where the matches lie in the first image, float64 [M, 2]."""
        return self.features1.points[self.indices[:, 0]]

    @property
    def points2(self) -> np.ndarray:
        """Where the matches lie in the second image, float64 [M, 2]."""
        return self.features2.points[self.indices[:, 1]]


@dataclasses.dataclass(frozen=True)
class Matcher:
    """How features are matched and verified.

    Args:
        method: One of `matches.METHODS`.
        ratio: Lowe's, for the methods that use it.
        geometry: One of `verification.GEOMETRIES`, or None to leave matches unverified.
        threshold: Pixels within which a match is an inlier.
        intrinsics1, intrinsics2: The cameras' matrices [3, 3], for essential matrices; the second
            is the same as the first if None.
        seed: Of the estimation's random samples.
    """

    method: str = "mutual"
    ratio: float = 0.8
    geometry: str | None = "homography"
    threshold: float = 3.0
    intrinsics1: np.ndarray | None = None
    intrinsics2: np.ndarray | None = None
    seed: int = 0

    def __post_init__(self):
        check_method(self.method, self.ratio)
        if self.geometry is not None:
            check_geometry(self.geometry, self.threshold, self.intrinsics1)
        for name in ("intrinsics1", "intrinsics2"):
            if getattr(self, name) is not None:
                as_intrinsics(getattr(self, name), name)

    def settings(self) -> dict[str, Any]:
        """What the matches depend on, for JSON."""
        values = dataclasses.asdict(self)
        for name in ("intrinsics1", "intrinsics2"):
            if values[name] is not None:
                values[name] = np.asarray(values[name]).tolist()
        return values

    def match(self, features1: Features, features2: Features) -> PairMatches:
        """Matches two images; without any features on either side the result is empty."""
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
            )
        return PairMatches(features1, features2, indices, distances, self.geometry, *verification)
