"""Verifying matches by the geometry of two views, with OpenCV's robust estimators."""

from typing import NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from doap_tf.errors import InputError
from doap_tf.features.frames import transform_points

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
    "gc_ransac": {
        **_MSAC,
        "loMethod": cv2.LOCAL_OPTIM_GC,
        "loIterations": 25,
        "loSampleSize": 20,
    },
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


def verify(
    points1: np.ndarray,
    points2: np.ndarray,
    geometry: str = "homography",
    threshold: float = 3.0,
    intrinsics1: npt.ArrayLike | None = None,
    intrinsics2: npt.ArrayLike | None = None,
    seed: int = 0,
    estimator: str = "magsac",
    distances: np.ndarray | None = None,
) -> Verification:
    """Estimates a model from matches of which many may be wrong.

    Args:
        points1: [M, 2] in the first image.
        points2: [M, 2], their matches in the second.
        geometry: One of `GEOMETRIES`.
        threshold: Pixels within which a match is an inlier.
        intrinsics1: Matrix [3, 3] of the first camera; `"essential"` requires it.
        intrinsics2: Matrix [3, 3] of the second camera; by default that of the first.
        seed: Seed of the random samples; the same seed gives the same model.
        estimator: One of `ESTIMATORS`.
        distances: [M] between the descriptors. `"prosac"`, and `"magsac"` unless it looks for a
            homography, draw the smallest first, by default in the given order.
    """
    check_geometry(geometry, threshold, intrinsics1, estimator)
    points1, points2 = np.asarray(points1, np.float64), np.asarray(points2, np.float64)
    if points1.shape != points2.shape or points1.shape[1:] != (2,):
        raise InputError(
            f"points must be two arrays [M, 2], not {list(points1.shape)} and "
            f"{list(points2.shape)}."
        )
    if distances is not None and np.shape(distances) != points1.shape[:1]:
        raise InputError(
            f"distances must be [{len(points1)}], one per match, not {list(np.shape(distances))}."
        )
    cameras = None
    if geometry == "essential" and intrinsics1 is not None:
        first = as_intrinsics(intrinsics1, "intrinsics1")
        second = first if intrinsics2 is None else as_intrinsics(intrinsics2, "intrinsics2")
        cameras = first, second
    model = None
    if len(points1) >= GEOMETRIES[geometry]:
        parameters = _parameters(estimator, geometry, threshold, seed)
        order = np.arange(len(points1))
        if distances is not None and parameters.sampler != cv2.SAMPLING_UNIFORM:
            order = np.argsort(distances, kind="stable")
        model = _estimate(points1[order], points2[order], geometry, cameras, parameters)
    if model is None:
        count = len(points1)
        return Verification(None, np.zeros(count, bool), np.full(count, np.inf))
    if geometry == "homography":
        residuals = np.linalg.norm(transform_points(points1, model) - points2, axis=1)
        residuals = np.nan_to_num(residuals, nan=np.inf)
    else:
        fundamental = model
        if cameras is not None:
            fundamental = np.linalg.inv(cameras[1]).T @ model @ np.linalg.inv(cameras[0])
        residuals = sampson_distances(points1, points2, fundamental)
    return Verification(model, residuals <= threshold, residuals)


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


def check_geometry(
    geometry: str,
    threshold: float,
    intrinsics1: npt.ArrayLike | None = None,
    estimator: str = "magsac",
) -> None:
    """Raises an InputError unless `verify` takes these."""
    if geometry not in GEOMETRIES:
        raise InputError(f"geometry must be one of {', '.join(GEOMETRIES)}, not {geometry!r}.")
    if not 0 < threshold < np.inf:
        raise InputError(f"threshold must be a number of pixels above 0, not {threshold!r}.")
    if geometry == "essential" and intrinsics1 is None:
        raise InputError("an essential matrix needs the cameras' matrices: give intrinsics.")
    if estimator not in ESTIMATORS:
        raise InputError(f"estimator must be one of {', '.join(ESTIMATORS)}, not {estimator!r}.")


def as_intrinsics(intrinsics: npt.ArrayLike, name: str) -> np.ndarray:
    """Returns a camera matrix as float64 [3, 3]; raises an InputError if it is not one."""
    matrix = np.asarray(intrinsics, np.float64)
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
    return matrix


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
