"""Bootstrap intervals: what is known in closed form, and how often they hold the truth."""

import numpy as np
import pytest

from doap_tf.metrics import mean_interval


def test_is_that_of_the_normal_law_for_many_values():
    values = np.random.default_rng(0).normal(5, 2, 400)
    low, high = mean_interval(values)
    error = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - error, abs=0.02)
    assert high == pytest.approx(values.mean() + error, abs=0.02)


def test_paired_differences_are_told_apart_where_the_pairs_vary_more():
    pairs = np.random.default_rng(0).uniform(0, 1, 30)
    better = pairs + 0.02
    assert mean_interval(better)[0] < mean_interval(pairs)[1]
    assert mean_interval(better - pairs) == pytest.approx((0.02, 0.02))


def test_one_value_and_none():
    assert mean_interval([0.5]) == (0.5, 0.5)
    with pytest.raises(ValueError, match=r"shape \[N\]"):
        mean_interval([])
