"""FPR95 and the ROC curve against scikit-learn and a plain count."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from doap_tf.metrics import false_positive_rate, roc_auc, roc_curve

pairs = st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=2, max_size=60).filter(
    lambda entries: len({match for _, match in entries}) == 2
)


def counted_rate(distances, matches, recall):
    """Raises the threshold until enough matches are accepted, in whole numbers."""
    wanted, total = round(recall * 100), sum(matches)
    for threshold in sorted(set(distances)):
        labels = [m for d, m in zip(distances, matches, strict=True) if d <= threshold]
        if 100 * sum(labels) >= wanted * total:
            return labels.count(False) / (len(matches) - total)


@settings(deadline=None)
@given(pairs, st.sampled_from([0.5, 0.8, 0.95, 1.0]))
def test_rate_with_ties(entries, recall):
    distances, matches = map(list, zip(*entries, strict=True))
    expected = counted_rate(distances, matches, recall)
    assert false_positive_rate(distances, matches, recall) == pytest.approx(expected)


@pytest.mark.parametrize("order", [1, -1])
def test_ties_at_the_threshold_are_accepted_together(order):
    """Distances 0 (8 matches), 1 (2 matches, 3 others), 2 (7 others)."""
    distances = np.repeat([0, 1, 1, 2], [8, 2, 3, 7])[::order]
    matches = np.repeat([True, True, False, False], [8, 2, 3, 7])[::order]
    assert false_positive_rate(distances, matches) == pytest.approx(0.3)
    assert false_positive_rate(distances, matches, recall=0.8) == 0


@settings(deadline=None)
@given(pairs, st.randoms())
def test_the_order_of_pairs_does_not_matter(entries, random):
    shuffled = random.sample(entries, len(entries))
    for measure in (false_positive_rate, roc_auc):
        assert measure(*zip(*entries, strict=True)) == pytest.approx(
            measure(*zip(*shuffled, strict=True))
        )


def test_rate_is_the_first_point_of_the_curve_with_enough_recall():
    rng = np.random.default_rng(0)
    matches = rng.random(5000) < 0.5
    bits = rng.binomial(64, np.where(matches, 0.2, 0.4))
    false, true = roc_curve(bits, matches)
    assert false_positive_rate(bits, matches) == false[np.argmax(true >= 0.95)]


@pytest.mark.parametrize("matches", range(1, 200))
def test_rounding_never_costs_a_match(matches):
    """One non-match after each match: as many wrong pairs as matches before the last needed."""
    labels = np.tile([True, False], matches)
    needed = -(-95 * matches // 100)
    assert false_positive_rate(np.arange(2 * matches), labels) == (needed - 1) / matches


def test_rate_by_hand():
    """20 matches: the 19th is reached after one of the two non-matches."""
    distances = np.arange(22)
    matches = np.ones(22, bool)
    matches[[5, 20]] = False
    assert false_positive_rate(distances, matches) == 0.5
    assert false_positive_rate(distances, matches, recall=1.0) == 1.0


@settings(deadline=None)
@given(pairs)
def test_area_and_curve_are_scikit_learns(entries):
    distances, matches = map(np.array, zip(*entries, strict=True))
    assert roc_auc(distances, matches) == pytest.approx(
        sklearn.metrics.roc_auc_score(matches, -distances)
    )
    false, true, _ = sklearn.metrics.roc_curve(matches, -distances, drop_intermediate=False)
    found = roc_curve(distances, matches)
    np.testing.assert_allclose(found[0], false)
    np.testing.assert_allclose(found[1], true)


@settings(deadline=None)
@given(pairs)
def test_area_with_ties_in_order_is_that_of_distinct_distances(entries):
    distances, matches = map(np.array, zip(*entries, strict=True))
    distinct = distances + np.arange(len(distances)) / len(distances)
    assert roc_auc(distances, matches, ties="in_order") == pytest.approx(
        sklearn.metrics.roc_auc_score(matches, -distinct)
    )


def test_equal_distances_are_chance():
    matches = np.arange(10) < 5
    assert roc_auc(np.ones(10), matches) == 0.5
    assert roc_auc(np.ones(10), matches, ties="in_order") == 1
    assert roc_auc(np.ones(10), ~matches, ties="in_order") == 0
    with pytest.raises(ValueError, match="ties must be one of half, in_order, not 'last'"):
        roc_auc(np.ones(10), matches, ties="last")


@pytest.mark.parametrize("measure", [false_positive_rate, roc_auc, roc_curve])
@pytest.mark.parametrize("matches", [[], [True], [False, False]])
def test_one_kind_of_pairs_is_an_error(measure, matches):
    with pytest.raises(ValueError, match="needs matching and other pairs"):
        measure(np.zeros(len(matches)), matches)


def test_impossible_recall_is_an_error():
    with pytest.raises(ValueError, match="recall must lie in"):
        false_positive_rate([1, 2], [True, False], recall=95)
