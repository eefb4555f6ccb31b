"""Verifying matches by the geometry of two views, with OpenCV's robust estimators."""

import dataclasses
import os
from typing import Any, NamedTuple

import numpy as np

from doap_tf.counts import count
from doap_tf.errors import InputError, check_choice
from doap_tf.matching.geometry_estimation import (
    ESTIMATORS,
    GEOMETRIES,
    draws_in_order,
    estimate_geometry,
    sampling,
)
from doap_tf.matching.image_features import Features
from doap_tf.matching.matcher import Matches
from doap_tf.matching.model_residuals import model_residuals
from doap_tf.matching.verdict import confidence, evidence, has_parallax, is_reliable
from doap_tf.readers.images import ImageLike

#: Of a homography and a fundamental matrix, or an essential one where the cameras are known, the
#: better supported.
AUTO = "auto"


class Verification(NamedTuple):
    """A model of two views and how well each match fits it.

    Attributes:
        geometry: One of `GEOMETRIES`, what was estimated.
        model: float64 [3, 3] from the first image to the second, or None if none was found.
        inliers: bool [M], residuals within the threshold.
        residuals: float64 [M] in pixels; infinite without a model. For a homography the distance
            in the second image, otherwise the Sampson distance.
        confidence: 0…1 that the images show the same scene, at least 0.5 if the match is reliable
            (`doap_tf.matching.verdict`).
    """

    geometry: str
    model: np.ndarray | None
    inliers: np.ndarray
    residuals: np.ndarray
    confidence: float

    def __repr__(self) -> str:
        return (
            f"Verification({count(self.inliers.sum(), 'inlier')} of "
            f"{count(len(self.inliers), 'match')})"
        )


@dataclasses.dataclass(frozen=True, repr=False)
class PairMatches:
    """The features of two images, their matches, and the geometry that the matches agree on.

    Attributes:
        features1, features2: Features of the two images.
        indices, scores, distances: As in `Matches`.
        geometry: The geometry estimated; None if the matches were not verified.
        model, inliers, residuals, confidence: As in `Verification`. If the matches were not
            verified, all are inliers, at zero pixels, and there is no confidence.
        images: The two images or their paths, where `match_images` was given them.
        turn: Whole degrees by which the second image was turned to the left to be described, 0 to
            359; see `match_images`. All positions are in pixels of the image as given.
    """

    features1: Features
    features2: Features
    indices: np.ndarray
    scores: np.ndarray
    distances: np.ndarray | None
    geometry: str | None
    model: np.ndarray | None
    inliers: np.ndarray
    residuals: np.ndarray
    confidence: float | None = None
    images: tuple[ImageLike, ImageLike] | None = None
    turn: int = 0

    def __repr__(self) -> str:
        counts = count(len(self.indices), "match")
        if self.geometry is None:
            return f"PairMatches({counts}, not verified)"
        verdict = "reliable" if self.reliable else "not reliable"
        counts += f", {count(self.inliers.sum(), 'inlier')}"
        return f"PairMatches({counts}, {self.geometry}, {verdict})"

    def draw(self, path: str | os.PathLike | None = None, title: str = "") -> np.ndarray:
        """Draws the matches with `doap_tf.drawing.matches.draw_matches`.

        Args:
            path: Where to write the picture as well, such as `"matches.png"`.
            title: Header of the picture, beside the counts.

        Returns:
            uint8 BGR [H, W, 3].
        """
        if self.images is None:
            raise InputError(
                "this pair was matched by its features alone: give the images to "
                "doap_tf.drawing.matches.draw_matches."
            )
        from doap_tf.drawing.matches import draw_matches  # brings Matplotlib
        from doap_tf.drawing.pictures import write_picture

        picture = draw_matches(*self.images, self, title)
        if path is not None:
            write_picture(path, picture)
        return picture

    @property
    def reliable(self) -> bool | None:
        """Whether the images show the same scene, beyond chance; None if nothing was verified."""
        return is_reliable(self.confidence)

    @property
    def points1(self) -> np.ndarray:
        """Positions of the matches in the first image, float64 [M, 2]."""
        return self.features1.points[self.indices[:, 0]]

    @property
    def points2(self) -> np.ndarray:
        """Positions of the matches in the second image, float64 [M, 2]."""
        return self.features2.points[self.indices[:, 1]]


@dataclasses.dataclass(frozen=True)
class Verifier:
    """Estimates a model from matches of which many may be wrong, and says which fit it.

    Args:
        geometry: One of `GEOMETRIES`; `"auto"`: of a homography and a fundamental matrix (an
            essential one if intrinsics are given) the one with more evidence, and the latter if
            `doap_tf.matching.verdict.has_parallax`; None leaves matches unverified.
        threshold: Pixels within which a match is an inlier.
        intrinsics1: Matrix [3, 3] of the first camera; `"essential"` requires it.
        intrinsics2: Matrix [3, 3] of the second camera; by default that of the first.
        seed: Seed of the random samples; the same seed gives the same model.
        estimator: One of `ESTIMATORS`.
    """

    geometry: str | None = AUTO
    threshold: float = 3.0
    intrinsics1: np.ndarray | None = None
    intrinsics2: np.ndarray | None = None
    seed: int = 0
    estimator: str = "magsac"

    def __post_init__(self) -> None:
        check_choice("geometry", self.geometry, (AUTO, *GEOMETRIES, None))
        check_choice("estimator", self.estimator, ESTIMATORS)
        if not 0 < self.threshold < np.inf:
            raise InputError(f"threshold must be a number of pixels above 0, not {self.threshold}.")
        if self.geometry == "essential" and self.intrinsics1 is None:
            raise InputError("an essential matrix needs the cameras' matrices: give intrinsics.")
        for name in ("intrinsics1", "intrinsics2"):
            if getattr(self, name) is not None:
                _check_intrinsics(np.asarray(getattr(self, name), np.float64), name)

    def settings(self) -> dict[str, Any]:
        """Returns what the verification depends on, for JSON."""
        if self.geometry is None:
            return {"geometry": None}
        fields = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in dataclasses.asdict(self).items()
        }
        samples = {name: dict(sampling(self.estimator, name)) for name in self._geometries()}
        return {**fields, "samples": samples}

    def verify(self, features1: Features, features2: Features, matches: Matches) -> PairMatches:
        """Verifies the matches of two images."""
        indices, scores, distances = matches
        if self.geometry is None:
            count = len(indices)
            inliers, residuals = np.ones(count, bool), np.zeros(count)
            return PairMatches(features1, features2, *matches, None, None, inliers, residuals)
        points1, points2 = features1.points[indices[:, 0]], features2.points[indices[:, 1]]
        costs = -scores if distances is None else distances
        verification = self.verify_points(points1, points2, costs)
        return PairMatches(features1, features2, *matches, **verification._asdict())

    def verify_points(
        self, points1: np.ndarray, points2: np.ndarray, costs: np.ndarray | None = None
    ) -> Verification:
        """Verifies matches without their features.

        Args:
            points1: [M, 2] in the first image.
            points2: [M, 2], their matches in the second.
            costs: [M], such as distances of descriptors. `"prosac"`, and `"magsac"` unless it looks
                for an essential matrix, draw the smallest first, by default in the given order.
        """
        points1, points2 = np.asarray(points1, np.float64), np.asarray(points2, np.float64)
        count = len(points1)
        if points1.shape != points2.shape or points1.shape[1:] != (2,):
            raise InputError(
                f"points must be two arrays [M, 2], not {list(points1.shape)} and "
                f"{list(points2.shape)}."
            )
        if costs is not None and np.shape(costs) != (count,):
            raise InputError(f"costs must be [{count}], not {list(np.shape(costs))}.")
        if self.geometry not in (None, AUTO):
            return self._verify_by(self.geometry, points1, points2, costs)
        if self.geometry is None:
            raise InputError("with geometry None nothing is verified: choose another geometry.")
        planar, camera_geometry = self._geometries()
        plane = self._verify_by(planar, points1, points2, costs)
        cameras = self._verify_by(camera_geometry, points1, points2, costs)
        if cameras.model is None:
            return plane
        in_pixels = self._in_pixels(camera_geometry, cameras.model)
        if has_parallax(points1, points2, plane.residuals, in_pixels, self.threshold):
            return cameras._replace(confidence=max(cameras.confidence, plane.confidence))
        return cameras if cameras.confidence > plane.confidence else plane

    def _geometries(self) -> tuple[str, ...]:
        if self.geometry != AUTO:
            return (self.geometry,) if self.geometry else ()
        return "homography", "fundamental" if self.intrinsics1 is None else "essential"

    def _verify_by(
        self, geometry: str, points1: np.ndarray, points2: np.ndarray, costs: np.ndarray | None
    ) -> Verification:
        count, estimated = len(points1), None
        if count >= GEOMETRIES[geometry]:
            order = np.arange(count)
            if costs is not None and draws_in_order(self.estimator, geometry):
                order = np.argsort(costs, kind="stable")
            cameras = self._cameras() if geometry == "essential" else None
            estimated = estimate_geometry(
                points1[order],
                points2[order],
                geometry,
                self.threshold,
                self.seed,
                self.estimator,
                cameras,
            )
        if estimated is None:
            return Verification(geometry, None, np.zeros(count, bool), np.full(count, np.inf), 0.0)
        model, _ = estimated
        in_pixels = self._in_pixels(geometry, model)
        kind = "homography" if geometry == "homography" else "fundamental"
        residuals = model_residuals(points1, points2, kind, in_pixels)
        digits = evidence(points1, points2, kind, in_pixels, self.threshold)
        return Verification(
            geometry, model, residuals <= self.threshold, residuals, confidence(digits)
        )

    def _cameras(self) -> tuple[np.ndarray, np.ndarray]:
        first = np.asarray(self.intrinsics1, np.float64)
        second = self.intrinsics2
        return first, first if second is None else np.asarray(second, np.float64)

    def _in_pixels(self, geometry: str, model: np.ndarray) -> np.ndarray:
        """The homography or fundamental matrix that a model is; an essential one relates rays."""
        if geometry != "essential":
            return model
        first, second = (np.linalg.inv(camera) for camera in self._cameras())
        return second.T @ model @ first


def _check_intrinsics(matrix: np.ndarray, name: str) -> None:
    if (
        matrix.shape != (3, 3)
        or not np.isfinite(matrix).all()
        or not (matrix[2] == [0, 0, 1]).all()
        or min(matrix[0, 0], matrix[1, 1]) <= 0
    ):
        raise InputError(
            f"{name} must be a camera matrix [[fx, s, cx], [0, fy, cy], [0, 0, 1]], "
            f"not {matrix.tolist()}."
        )
