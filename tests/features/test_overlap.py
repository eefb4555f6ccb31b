import numpy as np
import pytest

from doap_tf.features.frames import compose, radii, scale_frames, similarity_frames
from doap_tf.features.overlap import ellipse_overlap, overlapping_pairs, thin


def random_ellipses(count, rng, extent=60):
    shape = rng.normal(0, 0.35, (count, 2, 2)) + np.eye(2)
    frames = similarity_frames(*rng.uniform(0, extent, (2, count)), rng.uniform(6, 14, count))
    frames[:, :, :2] = frames[:, :, :2] @ shape
    return frames


def counted_overlap(frame, other, steps=700):
    """Counts the points of a fine grid that lie in one ellipse and in both."""
    reach = np.stack([np.abs(f[:, :2]).sum(axis=1) for f in (frame, other)])
    centre = np.stack([frame[:, 2], other[:, 2]])
    low, high = (centre - reach).min(axis=0), (centre + reach).max(axis=0)
    axes = [np.linspace(*ends, steps) for ends in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1)
    within = [
        (((grid - f[:, 2]) @ np.linalg.inv(f[:, :2]).T) ** 2).sum(-1) < 1 for f in (frame, other)
    ]
    return (within[0] & within[1]).sum() / (within[0] | within[1]).sum()


def test_overlap_of_circles_has_its_closed_form():
    radius, distance = 5.0, np.array([0.0, 1.0, 4.0, 9.0, 10.0, 12.0])
    half = np.minimum(distance / (2 * radius), 1)
    lens = 2 * radius**2 * (np.arccos(half) - half * np.sqrt(1 - half**2))
    expected = lens / (2 * np.pi * radius**2 - lens)
    circles = similarity_frames(np.zeros(6), 0, radius)
    moved = similarity_frames(0.6 * distance, 0.8 * distance, radius)
    np.testing.assert_allclose(ellipse_overlap(circles, moved), expected, atol=1e-3)


def test_overlap_of_concentric_circles_is_the_ratio_of_areas():
    frames = similarity_frames(3, 4, np.full(3, 2.0))
    others = similarity_frames(3, 4, [2.0, 3.0, 1.0])
    np.testing.assert_allclose(ellipse_overlap(frames, others), [1, 4 / 9, 1 / 4], atol=1e-6)


def test_overlap_of_ellipses_agrees_with_counting():
    rng = np.random.default_rng(0)
    frames, others = random_ellipses(12, rng, 15), random_ellipses(12, rng, 15)
    counted = [counted_overlap(*pair) for pair in zip(frames, others, strict=True)]
    assert max(counted) > 0.4
    np.testing.assert_allclose(ellipse_overlap(frames, others), counted, atol=3e-3)


def test_overlap_does_not_change_under_an_affine_map():
    rng = np.random.default_rng(1)
    frames, others = random_ellipses(20, rng, 15), random_ellipses(20, rng, 15)
    change = np.array([[3.0, 1.0, -7.0], [0.2, 0.5, 2.0]])
    np.testing.assert_allclose(
        ellipse_overlap(compose(change, frames), compose(change, others)),
        ellipse_overlap(frames, others),
        atol=2e-3,
    )


def test_normalised_overlap_scales_ellipses_but_not_their_distance():
    rng = np.random.default_rng(2)
    frames, others = random_ellipses(6, rng, 4), random_ellipses(6, rng, 4)
    factor = 30 / radii(frames)
    counted = [
        counted_overlap(*pair)
        for pair in zip(scale_frames(frames, factor), scale_frames(others, factor), strict=True)
    ]
    np.testing.assert_allclose(ellipse_overlap(frames, others, 30.0), counted, atol=3e-3)
    change = ellipse_overlap(frames, others, 30.0) - ellipse_overlap(frames, others)
    assert np.abs(change).max() > 0.01


@pytest.mark.parametrize("normalised_radius", [None, 30.0])
def test_overlapping_pairs_misses_none(normalised_radius):
    rng = np.random.default_rng(3)
    frames, others = random_ellipses(300, rng), random_ellipses(200, rng)
    rows, columns = np.divmod(np.arange(300 * 200), 200)
    overlap = ellipse_overlap(frames[rows], others[columns], normalised_radius)
    if normalised_radius:
        offset = frames[rows, :, 2] - others[columns, :, 2]
        overlap[np.hypot(*offset.T) >= 4 * radii(frames[rows])] = 0
    expected = overlap >= 0.5
    found = overlapping_pairs(frames, others, 0.5, normalised_radius)
    assert expected.sum() > 100
    np.testing.assert_array_equal(found[0], rows[expected])
    np.testing.assert_array_equal(found[1], columns[expected])
    np.testing.assert_allclose(found[2], overlap[expected])


def test_overlapping_pairs_of_nothing():
    none = np.zeros((0, 2, 3))
    some = similarity_frames([1, 2], 3, 4)
    for pair in ((none, none), (none, some), (some, none)):
        assert [len(part) for part in overlapping_pairs(*pair, 0.5)] == [0, 0, 0]


def test_thin_drops_exactly_what_overlaps_an_earlier_one_that_stays():
    frames = random_ellipses(400, np.random.default_rng(4), extent=110)
    rows, columns = np.divmod(np.arange(400 * 400), 400)
    overlaps = (ellipse_overlap(frames[rows], frames[columns]) > 0.3).reshape(400, 400)
    expected: list[int] = []
    for index in range(400):
        if not overlaps[index, expected].any():
            expected.append(index)
    assert 60 < len(expected) < 350
    np.testing.assert_array_equal(thin(frames, 0.3), expected)
    np.testing.assert_array_equal(thin(frames, 0.3, limit=40), expected[:40])
