"""Estimating the geometry of two views from matches of which many are wrong, by OpenCV."""

import cv2
import numpy as np

#: Each geometry with the minimal number of matches that determines it.
GEOMETRIES = {"homography": 4, "fundamental": 7, "essential": 5}

_CONFIDENCE = 0.9999
_MAX_ITERATIONS = 100_000
# MAGSAC++ draws the nearest descriptors first, and from neighbourhoods that grow (progressive
# NAPSAC): far fewer samples then find as many pairs (docs/experiments/retrieval.md). Poses from
# known cameras are better from samples of all matches alike (docs/experiments/retrieval.md).
_GUIDED = {"sampler": cv2.SAMPLING_PROGRESSIVE_NAPSAC, "maxIterations": 3_000}
_UNIFORM = {"sampler": cv2.SAMPLING_UNIFORM, "maxIterations": 10_000}
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


def estimate_geometry(
    points1: np.ndarray,
    points2: np.ndarray,
    geometry: str,
    threshold: float,
    seed: int,
    estimator: str = "magsac",
    cameras: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """Estimates a model.

    Args:
        points1: float64 [M, 2] in the first image, in the order in which they are drawn by
            estimators that do not draw uniformly.
        points2: float64 [M, 2], their matches in the second.
        geometry: One of `GEOMETRIES`.
        threshold: Pixels of an inlier.
        seed: Of the random samples.
        estimator: One of `ESTIMATORS`.
        cameras: Matrices [3, 3] of both cameras, for an essential matrix alone.

    Returns:
        The model, float64 [3, 3], and its inliers, bool [M]; None if none was found.
    """
    parameters = cv2.UsacParams()
    parameters.threshold = threshold
    parameters.confidence = _CONFIDENCE
    parameters.randomGeneratorState = seed
    for name, value in (ESTIMATORS[estimator] | sampling(estimator, geometry)).items():
        setattr(parameters, name, value)
    try:
        if cameras is not None:
            model, inliers = cv2.findEssentialMat(
                points1, points2, cameras[0], cameras[1], None, None, parameters
            )
        elif geometry == "homography":
            model, inliers = cv2.findHomography(points1, points2, parameters)
        else:
            model, inliers = cv2.findFundamentalMat(points1, points2, parameters)
    except cv2.error:
        # OpenCV raises if it cannot draw a single sample, as from many copies of one point.
        return None
    if model is None or model.shape != (3, 3) or not np.isfinite(model).all():
        return None
    return model, inliers.ravel() != 0


def draws_in_order(estimator: str, geometry: str) -> bool:
    """Whether an estimator draws earlier matches first, not all alike."""
    drawn = ESTIMATORS[estimator] | sampling(estimator, geometry)
    return drawn.get("sampler", cv2.SAMPLING_UNIFORM) != cv2.SAMPLING_UNIFORM


def sampling(estimator: str, geometry: str) -> dict[str, int]:
    """Returns how an estimator draws samples, and how many at most, as OpenCV names it."""
    if estimator != "magsac":
        return {"maxIterations": _MAX_ITERATIONS}
    return _UNIFORM if geometry == "essential" else _GUIDED
