"""Greedy one-to-one matching against a sorted list of all pairs."""

import numpy as np
import pytest

from doap_tf.evaluation.greedy import greedy_count, greedy_matches
from doap_tf.metrics import NORM_HAMMING, NORM_L2, distance_matrix


def sorted_choice(costs):
    """Goes through all pairs by cost, then row, then column."""
    pairs = sorted((cost, row, column) for (row, column), cost in np.ndenumerate(costs))
    rows, columns, chosen = set(), set(), []
    for cost, row, column in pairs:
        if row not in rows and column not in columns:
            rows.add(row)
            columns.add(column)
            chosen.append((row, column, cost))
    return chosen


@pytest.mark.parametrize("norm", [NORM_L2, NORM_HAMMING])
@pytest.mark.parametrize("sizes", [(0, 4), (4, 0), (1, 1), (3, 50), (50, 3), (60, 70)])
@pytest.mark.parametrize("values", [1, 3, 200])
def test_matches(norm, sizes, values):
    """With one value all distances tie; with three many do."""
    rng = np.random.default_rng(0)
    first, second = (rng.integers(0, values, (size, 6)).astype(np.uint8) for size in sizes)
    if norm == NORM_L2:
        first, second = first.astype(np.float32), second.astype(np.float32)
    rows, columns, distances = greedy_matches(first, second, norm)
    expected = sorted_choice(distance_matrix(first, second, norm))
    assert list(zip(rows, columns, strict=True)) == [(r, c) for r, c, _ in expected]
    np.testing.assert_allclose(distances, [cost for *_, cost in expected], rtol=1e-6)


def test_count():
    """The cheapest pair blocks two others, of which one could have been had besides it."""
    rows, columns = np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2])
    assert greedy_count(rows, columns, np.array([1.0, 2.0, 3.0, 9.0])) == 2
    assert greedy_count(rows, columns, np.array([3.0, 1.0, 2.0, 9.0])) == 3
    assert greedy_count(rows[:0], columns[:0], np.zeros(0)) == 0
