"""Distinct places against a plain count."""

import numpy as np

from doap_tf.metrics import distinct_places


def test_equals_a_plain_loop():
    points = np.random.default_rng(0).uniform(0, 40, (200, 2))
    kept = []
    for row, point in enumerate(points):
        if all(np.hypot(*(point - points[other])) > 3 for other in kept):
            kept.append(row)
    assert 50 < len(kept) < 150
    np.testing.assert_array_equal(np.flatnonzero(distinct_places(points)), kept)


def test_a_structure_at_several_scales_counts_once():
    points = np.array([[10, 10], [10.5, 10], [12, 10], [14, 10], [50, 50], [50, 50]])
    assert distinct_places(points).tolist() == [True, False, False, True, True, False]
    assert distinct_places(points, distance=100).sum() == 1
    assert len(distinct_places(np.empty((0, 2)))) == 0
