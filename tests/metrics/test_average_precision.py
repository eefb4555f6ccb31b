"""Average precision against scikit-learn, the benchmark's definition and values by hand."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from doap_tf.metrics import (
    average_precision,
    average_precision_of_ranks,
    precision_recall_curve,
)


def interpolated_area(distances, relevant, positives):
    """Walks down the list and adds trapezoids between neighbouring points, from (0, 1) on."""
    ranked = sorted(range(len(distances)), key=lambda place: distances[place])
    found, last_recall, last_precision, area = 0, 0.0, 1.0, 0.0
    for rank, place in enumerate(ranked, start=1):
        found += bool(relevant[place])
        recall, precision = found / positives, found / rank
        area += (recall - last_recall) * (precision + last_precision) / 2
        last_recall, last_precision = recall, precision
    return area


lists = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=40)


@settings(deadline=None)
@given(lists, st.integers(0, 5))
def test_trapezoid_with_ties_and_missing_positives(entries, missing):
    distances, relevant = map(list, zip(*entries, strict=True))
    positives = sum(relevant) + missing
    value = average_precision(distances, relevant, positives=positives)
    expected = interpolated_area(distances, relevant, positives) if positives else 0
    assert value == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=60).filter(any), st.randoms())
def test_mean_precision_is_scikit_learns_for_distinct_distances(relevant, random):
    distances = random.sample(range(1000), len(relevant))
    expected = sklearn.metrics.average_precision_score(relevant, -np.array(distances))
    assert average_precision(distances, relevant, "mean_precision") == pytest.approx(expected)


def test_by_hand():
    """Ranks 1 and 3 of four: precisions 1 and 2/3, before them 1 and 1/2."""
    distances, relevant = [0.1, 0.2, 0.3, 0.4], [True, False, True, False]
    assert average_precision(distances, relevant, "mean_precision") == pytest.approx(5 / 6)
    assert average_precision(distances, relevant) == pytest.approx((1 + (2 / 3 + 1 / 2) / 2) / 2)
    assert average_precision(distances, relevant, "mean_precision", 4) == pytest.approx(5 / 12)


@pytest.mark.parametrize("method", ["trapezoid", "mean_precision"])
@pytest.mark.parametrize(
    ("relevant", "expected"),
    [([], 0.0), ([True], 1.0), ([False], 0.0), ([True, True], 1.0), ([False, False], 0.0)],
)
def test_shortest_lists(relevant, expected, method):
    assert average_precision(np.zeros(len(relevant)), relevant, method) == expected


@pytest.mark.parametrize("method", ["trapezoid", "mean_precision"])
def test_equal_distances_keep_the_given_order(method):
    first = average_precision(np.ones(4), [True, True, False, False], method)
    last = average_precision(np.ones(4), [False, False, True, True], method)
    assert first == 1 and last < 0.5


def test_many_lists_at_once():
    ranks = np.array([[[1, 2], [3, 9]], [[1, 5], [2, 3]]])
    values = average_precision_of_ranks(ranks, 3)
    for place in np.ndindex(2, 2):
        relevant = np.isin(np.arange(1, 10), ranks[place])
        assert values[place] == pytest.approx(
            average_precision(np.arange(9), relevant, positives=3)
        )


@pytest.mark.parametrize("values", [1, 5, 1000])
def test_curve_is_scikit_learns(values):
    rng = np.random.default_rng(0)
    relevant, distances = rng.random(50) < 0.3, rng.integers(0, values, 50)
    precision, recall = precision_recall_curve(distances, relevant)
    expected = sklearn.metrics.precision_recall_curve(relevant, -distances)
    np.testing.assert_allclose(precision, expected[0][::-1])
    np.testing.assert_allclose(recall, expected[1][::-1])


def test_curve_of_nothing_is_a_point():
    precision, recall = precision_recall_curve([], [])
    assert (precision.tolist(), recall.tolist()) == ([1.0], [0.0])


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (([1.0], [True, False]), r"\[1\] and \[2\]"),
        (([[1.0]], [[True]]), r"\[1, 1\]"),
        (([np.nan, 1.0], [True, False]), "entry 0"),
        (([1.0], [True], "auc"), "auc"),
        (([1.0, 2.0], [True, True], "trapezoid", 1), "at least the 2"),
    ],
)
def test_bad_input_is_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        average_precision(*arguments)
