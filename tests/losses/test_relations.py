import numpy as np
import pytest
import tensorflow as tf

from doap_tf.losses import AveragePrecisionLoss, HardestInBatchLoss, relations
from tests.losses import reference


def plain_relations(labels, far_apart=None):
    """The rules of docs/method.md, one pair at a time."""
    count = len(labels)
    matrix = np.zeros([count, count], int)
    for q in range(count):
        for x in range(count):
            same_sequence = labels[q, 1] == labels[x, 1] != -1
            if q == x:
                matrix[q, x] = 0
            elif labels[q, 0] == labels[x, 0]:
                matrix[q, x] = 1
            elif not same_sequence:
                matrix[q, x] = -1
            elif far_apart is not None and min(labels[q, 2], labels[x, 2]) >= 0:
                matrix[q, x] = -int(far_apart[labels[q, 1], labels[q, 2], labels[x, 2]])
    return matrix


def random_labels(generator, count):
    groups = generator.integers(0, 12, size=count)
    sequences = groups % 4 - 1  # a group lies in one sequence, some in none
    clusters = generator.integers(-1, 5, size=count)
    return np.stack([groups, sequences, clusters], axis=1)


def test_rules():
    generator = np.random.default_rng(0)
    labels = random_labels(generator, 60)
    far_apart = generator.random([3, 5, 5]) < 0.5
    far_apart |= far_apart.transpose(0, 2, 1)
    np.testing.assert_array_equal(relations(labels), plain_relations(labels))
    np.testing.assert_array_equal(relations(labels[:, :2]), plain_relations(labels))
    np.testing.assert_array_equal(
        relations(labels, far_apart=far_apart), plain_relations(labels, far_apart)
    )
    without = labels.copy()
    without[:, 1] = -1
    np.testing.assert_array_equal(relations(labels[:, 0]), plain_relations(without))
    np.testing.assert_array_equal(relations(labels[:, :1]), plain_relations(without))


def test_part_of_the_queries_gives_part_of_the_rows():
    labels = random_labels(np.random.default_rng(1), 30)
    rows = np.array([3, 17, 4])
    np.testing.assert_array_equal(
        relations(labels[rows], labels, query_rows=rows), relations(labels).numpy()[rows]
    )


def test_queries_outside_the_list_meet_all_of_it():
    got = relations(np.array([5]), np.array([5, 6]), query_rows=np.array([-1]))
    np.testing.assert_array_equal(got, [[1, -1]])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_large_group_numbers_survive_keras(dtype):
    """Keras casts labels to float32, in which 2²⁴ and 2²⁴ + 1 are the same."""
    rows = reference.unit_rows(np.random.default_rng(2), 4, 3).astype(np.float32)
    loss, groups = AveragePrecisionLoss(), np.array([0, 0, 1, 1], dtype)
    wanted = float(loss(groups, rows))
    for first in (2**24, 2**31 - 2, -(2**31) + 1):
        assert float(loss(groups + first, rows)) == wanted
    model = tf.keras.Sequential([tf.keras.layers.Identity()])
    model.compile(loss=loss)
    assert model.test_on_batch(rows, groups + 2**24) == wanted


@pytest.mark.parametrize("number, dtype", [(2**24, np.float32), (2**31, np.int64)])
def test_group_numbers_that_cannot_be_told_apart_are_refused(number, dtype):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"must be below {number}"):
        AveragePrecisionLoss()(np.array([0, 0, number, number], dtype), np.eye(4))


@pytest.mark.parametrize("loss", [AveragePrecisionLoss, HardestInBatchLoss])
def test_losses_respect_relations(loss):
    generator = np.random.default_rng(3)
    labels = random_labels(generator, 40)
    far_apart = generator.random([3, 5, 5]) < 0.5
    far_apart |= far_apart.transpose(0, 2, 1)
    rows = reference.unit_rows(generator, 40, 8).astype(np.float32)
    by_labels = loss(far_apart=far_apart)(labels, rows)
    by_matrix = loss(from_relations=True)(plain_relations(labels, far_apart), rows)
    assert abs(float(by_labels - by_matrix)) < 1e-6
    assert abs(float(by_labels - loss()(labels[:, 0], rows))) > 1e-4


def test_bad_labels_are_refused():
    with pytest.raises(ValueError, match="query_labels must have the shape"):
        relations(np.zeros([3, 4]))
    with pytest.raises(ValueError, match="the same columns, not 1 and 2"):
        relations(np.zeros([3, 1]), np.zeros([3, 2]))
    with pytest.raises(ValueError, match=r"far_apart must have the shape \[S, K, K\]"):
        relations(np.zeros([3, 3]), far_apart=np.zeros([2, 3, 4], bool))
