"""Scores of two views, against SuperGlue's code, brute force and constructed scenes."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from doap_tf.evaluation.two_view_scores import (
    area_under_curve,
    bootstrap_interval,
    corner_error,
    distinct_places,
    epipolar_errors,
    pose_error,
)

ROTATION = Rotation.from_rotvec([0.1, -0.3, 0.05]).as_matrix()
TRANSLATION = np.array([1.0, 0.2, -0.4])


def superglue_auc(errors, limit):
    """The area as SuperGlue's evaluation sums it."""
    errors = np.r_[0.0, np.sort(errors)]
    recall = np.arange(len(errors)) / (len(errors) - 1)
    last = np.searchsorted(errors, limit)
    x, y = np.r_[errors[:last], limit], np.r_[recall[:last], recall[last - 1]]
    return np.trapezoid(y, x) / limit


@pytest.mark.parametrize("count", [1, 2, 41])
def test_area_under_curve_is_superglues(count):
    errors = np.random.default_rng(count).exponential(6, (7, count))
    errors[:3, -1] = np.inf
    for limit in (5, 10, 20, 500):
        expected = [superglue_auc(row, limit) for row in errors]
        np.testing.assert_allclose(area_under_curve(errors, limit), expected, atol=1e-12)
    assert area_under_curve([np.inf, 5.0], 5) == superglue_auc([np.inf, 5.0], 5) == 0


def test_interval_covers_the_mean():
    values = np.random.default_rng(1).normal(3, 1, 400)
    low, high = bootstrap_interval(lambda rows: values[rows].mean(), 400)
    assert low < values.mean() < high
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)


def test_places_are_counted_once():
    assert distinct_places(np.zeros((0, 2))) == 0
    assert distinct_places([[5, 5], [5, 5], [7, 5], [9, 5], [9, 8]]) == 2
    points = np.random.default_rng(2).uniform(0, 60, (300, 2))
    kept: list[np.ndarray] = []
    for point in points:
        if all(np.linalg.norm(point - other) > 3 for other in kept):
            kept.append(point)
    assert distinct_places(points) == len(kept)


def test_corner_error():
    true = np.array([[1.2, 0.1, 5], [-0.2, 0.9, 3], [1e-4, 2e-4, 1]])
    other = true @ np.array([[1, 0, 2], [0, 1, -1], [0, 0, 1]])
    corners = np.array([(0, 0), (99, 0), (99, 79), (0, 79)], float)
    expected = np.linalg.norm(
        mapped(corners + np.array([2, -1]), true) - mapped(corners, true), axis=1
    )
    assert corner_error(other, true, (100, 80)) == pytest.approx(expected.mean())
    assert corner_error(None, true, (100, 80)) == np.inf


def test_pose_error():
    points1, points2 = two_views()
    turn = Rotation.from_rotvec(np.radians([0, 7, 0])).as_matrix()
    for rotation, translation, expected in (
        (ROTATION, TRANSLATION, 0),
        (ROTATION, -5 * TRANSLATION, 0),  # the sign and length of the translation are unknown
        (turn @ ROTATION, TRANSLATION, 7),
        (ROTATION, [0.4, 0.0, 1.0], 90),
    ):
        error = pose_error(essential(), points1, points2, rotation, np.array(translation))
        assert error == pytest.approx(expected, abs=1e-4)
    assert pose_error(None, points1, points2, ROTATION, TRANSLATION) == np.inf


def test_epipolar_errors():
    points1, points2 = two_views()
    assert epipolar_errors(points1, points2, ROTATION, TRANSLATION).max() < 1e-20
    moved = points2 + np.array([0.01, -0.02])
    line2 = np.append(points1[0], 1) @ essential().T
    line1 = np.append(moved[0], 1) @ essential()
    distance = np.append(moved[0], 1) @ line2
    expected = (distance / np.hypot(*line1[:2])) ** 2 + (distance / np.hypot(*line2[:2])) ** 2
    assert epipolar_errors(points1, moved, ROTATION, TRANSLATION)[0] == pytest.approx(expected)


def mapped(points, homography):
    rows = np.column_stack([points, np.ones(len(points))]) @ homography.T
    return rows[:, :2] / rows[:, 2:]


def essential():
    return np.cross(np.eye(3), TRANSLATION) @ ROTATION


def two_views():
    """Forty points in space, as both cameras see them, in focal lengths."""
    points = np.random.default_rng(3).uniform([-2, -2, 4], [2, 2, 90], (40, 3))
    moved = points @ ROTATION.T + TRANSLATION
    return points[:, :2] / points[:, 2:], moved[:, :2] / moved[:, 2:]
