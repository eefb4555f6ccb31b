import math

import numpy as np
import pytest

from doap_tf.features.frames import transform_points
from doap_tf.matching import evidence, verdict
from tests.matching.scene import HOMOGRAPHY

SIZE = (640, 480)


def matches(right, wrong, seed=0, low=(0, 0), high=SIZE):
    """Points of matches of which the first fit HOMOGRAPHY; all of them lie in a box."""
    random = np.random.default_rng(seed)
    points1 = random.uniform(low, high, (right + wrong, 2))
    points2 = random.uniform((0, 0), SIZE, (right + wrong, 2))
    points2[:right] = transform_points(points1[:right], HOMOGRAPHY)
    return points1, points2


def digits(points1, points2, geometry="homography", model=HOMOGRAPHY):
    return evidence(points1, points2, geometry, model, 3.0)


def test_evidence_is_the_number_of_false_alarms():
    # A match near each node of a grid is one of a cell, and its wrong partners are too far to fit.
    points1 = np.stack(np.meshgrid(np.arange(6, 600, 30), np.arange(6, 300, 30)), -1).reshape(-1, 2)
    points1 = points1 + np.random.default_rng(0).uniform(0, 1, points1.shape)
    points2 = points1.copy()
    points2[50:] = points2[50:][::-1] + 10.0
    count, right = len(points1), 50
    chance, share = 1 / (24 * count), (right - 4) / (count - 4)
    divergence = share * math.log(share / chance)
    divergence += (1 - share) * math.log((1 - share) / (1 - chance))
    expected = (count - 4) * divergence / math.log(10) - math.log10(math.comb(count, 4))
    assert digits(points1, points2, model=np.eye(3)) == pytest.approx(expected)


def test_evidence_grows_with_inliers_and_shrinks_with_wrong_matches():
    found = [digits(*matches(right, 300)) for right in (0, 10, 30, 100)]
    assert found[0] == 0 and found == sorted(found) and found[-1] > 100
    assert digits(*matches(30, 600)) < digits(*matches(30, 100)) < digits(*matches(30, 0))


def test_a_point_at_several_scales_counts_once():
    points1, points2 = matches(40, 200)
    several = [
        np.concatenate([points, points[:40] + 0.1, points[:40]]) for points in (points1, points2)
    ]
    assert digits(*several) == pytest.approx(digits(points1, points2), rel=0.05)


@pytest.mark.parametrize("geometry", ["homography", "fundamental"])
def test_one_spot_and_one_line_are_no_evidence(geometry):
    sideways = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # epipolar lines are rows
    model = np.eye(3) if geometry == "homography" else sideways
    line = np.stack([np.linspace(0, 600, 60), np.full(60, 90.0)], axis=1)
    spot = np.random.default_rng(0).uniform(100, 105, (60, 2))
    spread = matches(60, 0)[0]
    for points in (line, spot):
        assert digits(points, points, geometry, model) == 0
    assert digits(spread, spread, geometry, model) > 20


def test_a_collapsed_homography_is_no_evidence():
    points1, points2 = matches(0, 200)
    points2[:60] = np.random.default_rng(1).uniform(200, 260, (60, 2))
    collapsed = np.array([[1e-3, 0, 230], [0, 1e-3, 230], [0, 0, 1]])
    inliers = np.linalg.norm(transform_points(points1, collapsed) - points2, axis=1) <= 30
    assert inliers.sum() > 40
    assert evidence(points1, points2, "homography", collapsed, 30.0) < verdict.RELIABLE_EVIDENCE


def test_wrong_matches_that_keep_their_height_are_no_evidence():
    random = np.random.default_rng(0)
    points1, points2 = matches(0, 700)
    points2[:, 1] = points1[:, 1] + random.normal(0, 30, 700)
    level = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # epipolar lines are rows
    assert digits(points1, points2, "fundamental", level) == 0
    points2[:200, 1] = points1[:200, 1]
    assert digits(points1, points2, "fundamental", level) == 0  # nor do they keep together
    points2[:200, 0] = points1[:200, 0] + random.uniform(0, 20, 200)
    assert digits(points1, points2, "fundamental", level) > verdict.RELIABLE_EVIDENCE


@pytest.mark.parametrize("zoom", [0.2, 5])
def test_matches_keep_together_at_any_scale_and_angle(zoom):
    points1, points2 = matches(60, 100)
    turn = zoom * np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1 / zoom]])
    points2 = transform_points(points2, turn)
    assert digits(points1, points2, model=turn @ HOMOGRAPHY) > 20


def test_confidence_of_what_is_just_reliable():
    assert verdict.confidence(verdict.RELIABLE_EVIDENCE) == 0.5
    assert verdict.is_reliable(0.5) and not verdict.is_reliable(0.49)
    assert verdict.is_reliable(None) is None
