"""Losses of corresponding rows against the definitions in float64, and their gradients."""

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.losses import CORRESPONDENCE_LOSSES, CorrespondenceLoss
from tests.losses import reference


def rows(head, count=9, dimension=8):
    generator = np.random.default_rng(0)
    if head == "hamming":
        return tuple(np.tanh(generator.normal(size=[2, count, dimension])))
    first = reference.unit_rows(generator, count, dimension)
    second = first + 0.4 * generator.normal(size=first.shape)
    return first, second / np.linalg.norm(second, axis=1, keepdims=True)


VALID = np.array([True, True, False, True, True, True, True, False, True])


def expected(name, distance, first, second, bins):
    first, second = first[VALID], second[VALID]
    relations = 2 * np.eye(len(first), dtype=int) - 1
    imprecision = 1 - np.concatenate(
        [
            reference.average_precision(one, two, relations, distance, bins, "tie_aware")
            for one, two in ((first, second), (second, first))
        ]
    )
    logits = first @ second.T / 0.05 / (first.shape[1] if distance == "hamming" else 1)
    surprise = np.concatenate(
        [-np.diag(table - np.log(np.exp(table).sum(1))[:, None]) for table in (logits, logits.T)]
    )
    return {
        "average_precision": imprecision.mean(),
        "log_likelihood": surprise.mean(),
        "both": imprecision.mean() + 0.1 * surprise.mean(),
    }[name]


@pytest.mark.parametrize("distance", ["euclidean", "squared", "hamming"])
@pytest.mark.parametrize("name", CORRESPONDENCE_LOSSES)
def test_the_loss_is_that_of_its_definition(name, distance):
    first, second = rows(distance)
    loss = CorrespondenceLoss(name, distance, 11)
    value = loss(tf.constant(first), tf.constant(second), tf.constant(VALID))
    assert float(value) == pytest.approx(expected(name, distance, first, second, 11), rel=1e-9)


@pytest.mark.parametrize("name", CORRESPONDENCE_LOSSES)
def test_gradients_agree_with_finite_differences(name):
    sides = tf.constant(np.stack(rows("hamming")))
    loss = CorrespondenceLoss(name, "hamming", 11)
    with tf.GradientTape() as tape:
        tape.watch(sides)
        value = loss(*tf.unstack(sides), tf.constant(VALID))
    gradients = tape.gradient(value, sides)
    direction = np.random.default_rng(1).normal(size=sides.shape)
    step = 1e-7
    ahead, behind = (
        loss(*tf.unstack(sides + sign * step * direction), tf.constant(VALID)) for sign in (1, -1)
    )
    along = float(tf.reduce_sum(gradients * direction))
    assert along == pytest.approx(float(ahead - behind) / (2 * step), rel=1e-4)
    assert not np.any(gradients[0].numpy()[~VALID])


def test_no_valid_row_is_no_loss_and_unknown_names_are_refused():
    first, second = rows("euclidean")
    assert float(CorrespondenceLoss()(first, second, tf.zeros(len(first), bool))) == 0
    with pytest.raises(ValueError, match="loss must be one of average_precision"):
        CorrespondenceLoss("ap")
