import numpy as np
import pytest

from doap_tf.features.frames import angles, radii, scale_frames, similarity_frames
from doap_tf.features.overlap import ellipse_overlap
from doap_tf.patch_generation.frame_jitter import LEVELS, detection_jitter, jitter_frames


@pytest.mark.parametrize(("level", "median"), [("easy", 0.85), ("hard", 0.72), ("tough", 0.6)])
def test_levels_have_the_median_overlaps_of_hpatches(level, median):
    rng = np.random.default_rng(0)
    frames = similarity_frames(*rng.uniform(0, 500, (2, 4000)), rng.uniform(1, 9, 4000))
    moved = jitter_frames(frames, LEVELS[level], rng)
    overlap = ellipse_overlap(scale_frames(frames, 5.0), scale_frames(moved, 5.0))
    assert np.median(overlap) == pytest.approx(median, abs=0.01)


def test_jitter_turns_frames_and_has_no_bias():
    rng = np.random.default_rng(1)
    frames = similarity_frames(50, 60, np.full(20000, 4.0))
    moved = jitter_frames(frames, LEVELS["tough"], rng)
    assert np.degrees(angles(moved).std()) == pytest.approx(20, abs=1.5)
    np.testing.assert_allclose(moved[:, :, 2].mean(axis=0), (50, 60), atol=0.15)
    assert np.log(np.abs(np.linalg.det(moved[:, :, :2])) / 16).mean() == pytest.approx(0, abs=0.02)


def test_detections_are_circles_with_the_errors_of_the_learned_detector():
    rng = np.random.default_rng(2)
    ellipses = similarity_frames(50, 60, np.full(20000, 4.0), 0.5)
    ellipses[:, :, :2] @= np.diag([1.5, 1 / 1.5])
    found = detection_jitter(ellipses, rng)
    axes = found[:, :, :2] / radii(found)[:, None, None]
    np.testing.assert_allclose(axes @ axes.mT, np.tile(np.eye(2), (20000, 1, 1)), atol=1e-9)
    place, scale = (found[:, :, 2] - (50, 60)) / 4, np.log2(radii(found) / 4)
    turned = np.degrees(angles(found) - angles(ellipses))
    np.testing.assert_allclose(place.std(axis=0), 0.34, rtol=0.03)
    np.testing.assert_allclose([scale.std(), turned.std()], [0.19, 9.3], rtol=0.03)
    np.testing.assert_allclose([*place.mean(axis=0), scale.mean()], 0, atol=0.01)
    assert turned.mean() == pytest.approx(0, abs=0.3)
