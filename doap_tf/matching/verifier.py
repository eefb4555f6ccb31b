"""Verifying matches by the geometry of two views, with OpenCV's robust estimators."""

import dataclasses
import os
from typing import Any, NamedTuple

import cv2
import numpy as np

from doap_tf.errors import InputError, check_choice
from doap_tf.features.frames import transform_points
from doap_tf.matching.image_features import Features
from doap_tf.matching.matcher import Matches
from doap_tf.readers.images import ImageLike

#: Each geometry with the minimal number of matches that determines it.
GEOMETRIES = {"homography": 4, "fundamental": 7, "essential": 5}

_CONFIDENCE = 0.9999
_MAX_ITERATIONS = 100_000
# Cameras of two views need larger samples than a homography, of matches that are mostly wrong.
# MAGSAC++ draws the nearest matches first, and from neighbourhoods that grow (progressive NAPSAC):
# a tenth of the iterations then finds more (docs/experiments/retrieval.md).
_GUIDED = {"sampler": cv2.SAMPLING_PROGRESSIVE_NAPSAC, "maxIterations": 10_000}
_MSAC = {"score": cv2.SCORE_METHOD_MSAC, "final_polisher": cv2.COV_POLISHER}
#: Robust estimators, by what sets them apart among OpenCV's: MAGSAC++ (USAC_MAGSAC), graph-cut
#: RANSAC (USAC_ACCURATE), RANSAC with local optimisation (USAC_DEFAULT), PROSAC with local
#: optimisation (USAC_PROSAC), and plain RANSAC, whose model fits a minimal sample.
ESTIMATORS: dict[str, dict[str, int]] = {
    "magsac": {
        "score": cv2.SCORE_METHOD_MAGSAC,
        "final_polisher": cv2.MAGSAC,
        "loMethod": cv2.LOCAL_OPTIM_SIGMA,
        "loIterations": 10,
        "loSampleSize": 50,
    },
    "gc_ransac": {**_MSAC, "loMethod": cv2.LOCAL_OPTIM_GC, "loIterations": 25, "loSampleSize": 20},
    "lo_ransac": {**_MSAC, "loMethod": cv2.LOCAL_OPTIM_INNER_AND_ITER_LO, "loIterations": 10},
    "prosac": {
        **_MSAC,
        "sampler": cv2.SAMPLING_PROSAC,
        "loMethod": cv2.LOCAL_OPTIM_INNER_LO,
        "loIterations": 10,
    },
    "ransac": {
        "score": cv2.SCORE_METHOD_RANSAC,
        "final_polisher": cv2.NONE_POLISHER,
        "loMethod": cv2.LOCAL_OPTIM_NULL,
    },
}


class Verification(NamedTuple):
    """A model of two views and how well each match fits it.

    Attributes:
        model: float64 [3, 3] from the first image to the second, or None if none was found.
        inliers: bool [M], residuals within the threshold.
        residuals: float64 [M] in pixels; infinite without a model. For a homography the distance
            in the second image, otherwise the Sampson distance.
    """

    model: np.ndarray | None
    inliers: np.ndarray
    residuals: np.ndarray


@dataclasses.dataclass(frozen=True, repr=False)
class PairMatches:
    """The features of two images, their matches, and the geometry that the matches agree on.

    Attributes:
        features1, features2: Features of the two images.
        indices, scores, distances: As in `Matches`.
        geometry: The geometry estimated; None if the matches were not verified.
        model, inliers, residuals: As in `Verification`; all are inliers, at zero pixels, if the
            matches were not verified.
        images: The two images or their paths, where `match_images` was given them.
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
    images: tuple[ImageLike, ImageLike] | None = None

    def __repr__(self) -> str:
        counts = f"{len(self.indices):,} matches"
        if self.geometry is None:
            return f"PairMatches({counts}, not verified)"
        return f"PairMatches({counts}, {self.inliers.sum():,} inliers, {self.geometry})"

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
        geometry: One of `GEOMETRIES`, or None to leave matches unverified.
        threshold: Pixels within which a match is an inlier.
        intrinsics1: Matrix [3, 3] of the first camera; `"essential"` requires it.
        intrinsics2: Matrix [3, 3] of the second camera; by default that of the first.
        seed: Seed of the random samples; the same seed gives the same model.
        estimator: One of `ESTIMATORS`.
    """

    geometry: str | None = "homography"
    threshold: float = 3.0
    intrinsics1: np.ndarray | None = None
    intrinsics2: np.ndarray | None = None
    seed: int = 0
    estimator: str = "magsac"

    def __post_init__(self):
        for name, known in (("geometry", GEOMETRIES), ("estimator", ESTIMATORS)):
            if getattr(self, name) is not None:
                check_choice(name, getattr(self, name), known)
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
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in dataclasses.asdict(self).items()
        }

    def verify(self, features1: Features, features2: Features, matches: Matches) -> PairMatches:
        """Verifies the matches of two images."""
        indices, scores, distances = matches
        if self.geometry is None:
            count = len(indices)
            verification = Verification(None, np.ones(count, bool), np.zeros(count))
        else:
            points1, points2 = features1.points[indices[:, 0]], features2.points[indices[:, 1]]
            costs = -scores if distances is None else distances
            verification = self.verify_points(points1, points2, costs)
        return PairMatches(features1, features2, *matches, self.geometry, *verification)

    def verify_points(
        self, points1: np.ndarray, points2: np.ndarray, costs: np.ndarray | None = None
    ) -> Verification:
        """Verifies matches without their features.

        Args:
            points1: [M, 2] in the first image.
            points2: [M, 2], their matches in the second.
            costs: [M], such as distances of descriptors. `"prosac"`, and `"magsac"` unless it looks
                for a homography, draw the smallest first, by default in the given order.
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
        geometry = self.geometry or "homography"
        cameras = None
        if geometry == "essential":
            first = np.asarray(self.intrinsics1, np.float64)
            second = self.intrinsics2
            cameras = first, first if second is None else np.asarray(second, np.float64)
        model = None
        if count >= GEOMETRIES[geometry]:
            parameters = _parameters(self.estimator, geometry, self.threshold, self.seed)
            order = np.arange(count)
            if costs is not None and parameters.sampler != cv2.SAMPLING_UNIFORM:
                order = np.argsort(costs, kind="stable")
            model = _estimate(points1[order], points2[order], geometry, cameras, parameters)
        if model is None:
            return Verification(None, np.zeros(count, bool), np.full(count, np.inf))
        if geometry == "homography":
            residuals = np.linalg.norm(transform_points(points1, model) - points2, axis=1)
            residuals = np.nan_to_num(residuals, nan=np.inf)
        else:
            fundamental = model
            if cameras is not None:
                fundamental = np.linalg.inv(cameras[1]).T @ model @ np.linalg.inv(cameras[0])
            residuals = sampson_distances(points1, points2, fundamental)
        return Verification(model, residuals <= self.threshold, residuals)


def sampson_distances(
    points1: np.ndarray, points2: np.ndarray, fundamental: np.ndarray
) -> np.ndarray:
    """Sampson distances [M] in pixels of matches [M, 2] under a fundamental matrix [3, 3]."""
    ones = np.ones((len(points1), 1))
    lines2 = np.hstack([points1, ones]) @ fundamental.T
    lines1 = np.hstack([points2, ones]) @ fundamental
    algebraic = (np.hstack([points2, ones]) * lines2).sum(axis=1)
    gradient = np.hypot(
        np.linalg.norm(lines1[:, :2], axis=1), np.linalg.norm(lines2[:, :2], axis=1)
    )
    return np.abs(algebraic) / np.maximum(gradient, 1e-300)


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


def _parameters(estimator: str, geometry: str, threshold: float, seed: int) -> cv2.UsacParams:
    parameters = cv2.UsacParams()
    parameters.threshold = threshold
    parameters.confidence = _CONFIDENCE
    parameters.maxIterations = _MAX_ITERATIONS
    parameters.randomGeneratorState = seed
    guided = estimator == "magsac" and geometry != "homography"
    for name, value in (ESTIMATORS[estimator] | (_GUIDED if guided else {})).items():
        setattr(parameters, name, value)
    return parameters


def _estimate(
    points1: np.ndarray,
    points2: np.ndarray,
    geometry: str,
    cameras: tuple[np.ndarray, np.ndarray] | None,
    parameters: cv2.UsacParams,
) -> np.ndarray | None:
    try:
        if cameras is not None:
            model, _ = cv2.findEssentialMat(
                points1, points2, cameras[0], cameras[1], None, None, parameters
            )
        elif geometry == "homography":
            model, _ = cv2.findHomography(points1, points2, parameters)
        else:
            model, _ = cv2.findFundamentalMat(points1, points2, parameters)
    except cv2.error:
        # OpenCV raises if it cannot draw a single sample, as from many copies of one point.
        return None
    if model is None or model.shape != (3, 3) or not np.isfinite(model).all():
        return None
    return model
