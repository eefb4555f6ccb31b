"""Matching and retrieval against loops over plain lists."""

import numpy as np
import pytest
import sklearn.metrics

from doap_tf.errors import InputError
from doap_tf.metrics import (
    NORM_HAMMING,
    NORM_L2,
    average_precision,
    matching_average_precision,
    retrieval_average_precisions,
)


def plain_matching(reference, target):
    """Nearest by comparing all; wrong ones count as positives that were not found."""
    distances, right = [], []
    for place, row in enumerate(reference):
        all_distances = [np.linalg.norm(row - other) for other in target]
        distances.append(min(all_distances))
        right.append(int(np.argmin(all_distances)) == place)
    return average_precision(distances, right, "mean_precision", len(reference))


def test_matching():
    rng = np.random.default_rng(0)
    reference = rng.standard_normal((60, 6))
    target = reference + 0.6 * rng.standard_normal((60, 6))
    value = matching_average_precision(reference, target, NORM_L2, "mean_precision")
    assert 0.3 < value < 0.95
    assert value == pytest.approx(plain_matching(reference, target))


def test_matching_extremes():
    rows = np.random.default_rng(1).integers(0, 256, (20, 16), np.uint8)
    assert matching_average_precision(rows, rows, NORM_HAMMING) == 1
    assert matching_average_precision(rows, np.roll(rows, 1, axis=0), NORM_HAMMING) == 0
    assert matching_average_precision(rows[:1], rows[:1], NORM_HAMMING) == 1


def test_matching_of_one_descriptor_for_all():
    """Everything matches row 0, which is right once, and first in the list."""
    same = np.ones((10, 4))
    assert matching_average_precision(same, same, NORM_L2) == pytest.approx(0.1)


@pytest.mark.parametrize("sizes", [(0, 0), (3, 2)])
def test_matching_needs_two_sides(sizes):
    with pytest.raises(InputError, match=f"{sizes[0]} and {sizes[1]}"):
        matching_average_precision(np.zeros((sizes[0], 4)), np.zeros((sizes[1], 4)), NORM_L2)


@pytest.mark.parametrize("memory_mb", [0.001, 512])
def test_retrieval_is_scikit_learns(memory_mb):
    rng = np.random.default_rng(2)
    groups = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 6, 12)))
    rows = rng.standard_normal((12, 8))[groups] + 0.8 * rng.standard_normal((len(groups), 8))
    values = retrieval_average_precisions(rows, groups, NORM_L2, "mean_precision", memory_mb)
    expected = []
    for query in range(len(rows)):
        others = np.arange(len(rows)) != query
        relevant = groups[others] == groups[query]
        if relevant.any():
            scores = -np.linalg.norm(rows[others] - rows[query], axis=1)
            expected.append(sklearn.metrics.average_precision_score(relevant, scores))
    assert 0.2 < np.mean(expected) < 0.95
    np.testing.assert_allclose(values, expected)


def test_retrieval_ties_keep_their_order():
    """A query finds nothing but ties: its own place left out, they come as they stand."""
    groups = np.array([0, 1, 0])
    values = retrieval_average_precisions(np.ones((3, 2)), groups, NORM_L2, "mean_precision")
    np.testing.assert_allclose(values, [1 / 2, 1])


@pytest.mark.parametrize("memory_mb", [0.001, 512])
def test_chosen_queries_are_not_in_the_database(memory_mb):
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(6), 4)
    rows = rng.standard_normal((6, 8))[groups] + rng.standard_normal((24, 8))
    queries = np.array([22, 1, 4, 9])
    values = retrieval_average_precisions(
        rows, groups, NORM_L2, "mean_precision", memory_mb, queries
    )
    others = [place for place in range(24) if place not in queries]
    expected = [
        sklearn.metrics.average_precision_score(
            groups[others] == groups[query], -np.linalg.norm(rows[others] - rows[query], axis=1)
        )
        for query in queries
    ]
    np.testing.assert_allclose(values, expected)
    everything = retrieval_average_precisions(rows, groups, NORM_L2, "mean_precision")
    assert not np.allclose(values, everything[queries])


def test_retrieval_without_pairs_is_empty():
    values = retrieval_average_precisions(np.zeros((3, 2)), np.arange(3), NORM_L2)
    assert values.shape == (0,)


def test_retrieval_wants_a_group_a_descriptor():
    with pytest.raises(InputError, match=r"\[3\].*\[2\]"):
        retrieval_average_precisions(np.zeros((3, 2)), np.zeros(2, int), NORM_L2)
