"""Scores of matches and models of two views whose truth is known: arrays in, numbers out."""

from collections.abc import Callable

import cv2
import numpy as np
from scipy.spatial import KDTree

from doap_tf.features.frames import transform_points

#: Pixels within which matches count as one place.
PLACE_RADIUS = 3.0
#: Limit of the squared symmetric epipolar distance, in focal lengths, of a right match (SuperGlue).
EPIPOLAR_LIMIT = 5e-4

_RESAMPLES = 2000
_CONFIDENCE = 0.95


def area_under_curve(errors: np.ndarray, limit: float) -> np.ndarray:
    """Area under the share of errors below a threshold, as it goes from 0 to `limit`: 0…1.

    The curve is interpolated linearly between the errors, as in SuperGlue's evaluation and those
    that follow it.

    Args:
        errors: [..., N], infinite where nothing was estimated.
        limit: The largest threshold.

    Returns:
        float64 [...].
    """
    errors = np.asarray(errors, np.float64)
    within = np.where(errors < limit, errors, np.nan)
    # Interpolation adds half a step at the largest of these errors to the area under the steps.
    steps = np.nansum(1 - within / limit, axis=-1)
    return (steps + np.nan_to_num(within).max(axis=-1) / (2 * limit)) / errors.shape[-1]


def bootstrap_interval(statistic: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """Bounds [2, ...] of the 95 % interval of a statistic, by drawing the pairs again.

    Args:
        statistic: Takes rows int64 [N] of the pairs, and returns numbers of one shape.
        count: Number N of pairs; for the same number the same pairs are drawn.
    """
    rng = np.random.default_rng(0)
    draws = np.stack([statistic(rng.integers(count, size=count)) for _ in range(_RESAMPLES)])
    return np.quantile(draws, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2], axis=0)


def distinct_places(points: np.ndarray) -> int:
    """Number of points [N, 2] that remain if each takes out all later ones within 3 pixels.

    A structure that is found at several scales has many right matches at one place.
    """
    points = np.asarray(points, np.float64)
    if not len(points):
        return 0
    kept = np.ones(len(points), bool)
    for row, neighbours in enumerate(KDTree(points).query_ball_point(points, PLACE_RADIUS)):
        if kept[row]:
            kept[[other for other in neighbours if other > row]] = False
    return int(kept.sum())


def corner_error(
    estimated: np.ndarray | None, homography: np.ndarray, size: tuple[int, int]
) -> float:
    """Mean distance of the first image's corners under two homographies; infinite without one."""
    if estimated is None:
        return np.inf
    width, height = size
    corners = np.array([(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)], float)
    difference = transform_points(corners, estimated) - transform_points(corners, homography)
    return float(np.nan_to_num(np.linalg.norm(difference, axis=1), nan=np.inf).mean())


def pose_error(
    essential: np.ndarray | None,
    points1: np.ndarray,
    points2: np.ndarray,
    rotation: np.ndarray,
    translation: np.ndarray,
) -> float:
    """Degrees between two relative poses: the larger of rotation and direction of translation.

    Args:
        essential: Essential matrix [3, 3], or None, for which the error is infinite.
        points1, points2: Inliers [N, 2] in focal lengths; most must lie in front of both cameras.
        rotation, translation: The true pose [3, 3] and [3], from the first camera to the second.
            As the length and sign of the translation are unknown, it counts as an axis.
    """
    if essential is None or not len(points1):
        return np.inf
    # Points at any distance count, as in SuperGlue's evaluation.
    _, estimated, direction, *_ = cv2.recoverPose(essential, points1, points2, np.eye(3), 1e9)
    cosine = np.clip((np.trace(estimated.T @ rotation) - 1) / 2, -1, 1)
    lengths = float(np.linalg.norm(direction) * np.linalg.norm(translation))
    axis_cosine = min(1.0, abs(float(direction[:, 0] @ translation)) / max(lengths, 1e-300))
    return float(np.degrees(max(np.arccos(cosine), np.arccos(axis_cosine))))


def epipolar_errors(
    points1: np.ndarray, points2: np.ndarray, rotation: np.ndarray, translation: np.ndarray
) -> np.ndarray:
    """Squared symmetric epipolar distances [N] of matches [N, 2] in focal lengths, as SuperGlue's.

    Args:
        points1, points2: From the principal points.
        rotation, translation: As for `pose_error`.
    """
    x, y, z = translation
    essential = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]) @ rotation
    ones = np.ones((len(points1), 1))
    lines2 = np.hstack([points1, ones]) @ essential.T
    lines1 = np.hstack([points2, ones]) @ essential
    algebraic = (np.hstack([points2, ones]) * lines2).sum(axis=1) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = 1 / (lines1[:, :2] ** 2).sum(axis=1) + 1 / (lines2[:, :2] ** 2).sum(axis=1)
        return np.nan_to_num(algebraic * weights, nan=np.inf)
