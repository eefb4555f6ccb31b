import numpy as np
import pytest

from doap_tf.data import GroupSampler
from doap_tf.training.batches import make_batches
from tests.training.launch import make_groups


def test_batches_are_those_of_the_sampler():
    groups = make_groups()
    expected = GroupSampler(groups, 20, seed=3)
    with make_batches(groups, GroupSampler(groups, 20, seed=3)) as batches:
        for _ in range(15):
            batch, rows = next(batches), next(expected)
            np.testing.assert_array_equal(batch.rows, rows)
            np.testing.assert_array_equal(batch.patches[..., 0], groups.patches[rows])
            np.testing.assert_array_equal(batch.labels, groups.labels(rows))
            assert batch.sampler_state == expected.state()


def test_sequences_can_be_left_out():
    groups = make_groups()
    groups.label_table[:, 1] = 5
    with make_batches(groups, GroupSampler(groups, 20), with_sequences=False) as batches:
        labels = next(batches).labels.numpy()
    assert (labels[:, 1:] == -1).all() and (labels[:, 0] >= 0).all()


def test_an_error_of_the_sampler_reaches_the_trainer():
    groups = make_groups()

    class Broken(GroupSampler):
        def __next__(self):
            raise RuntimeError("broken sampler")

    with (
        make_batches(groups, Broken(groups, 20)) as batches,
        pytest.raises(RuntimeError, match="broken"),
    ):
        next(batches)
