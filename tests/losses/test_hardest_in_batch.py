import numpy as np
import pytest
import tensorflow as tf

from doap_tf.losses import HardestInBatchLoss, relations
from doap_tf.losses.distances import DISTANCES
from tests.losses import reference


@pytest.mark.parametrize("distance", DISTANCES)
def test_equals_brute_force(distance):
    generator = np.random.default_rng(0)
    for groups in ([0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 2, 2, 3], [0, 0, 0], [0, 1, 2]):
        rows = reference.unit_rows(generator, len(groups), 5)
        matrix = relations(np.array(groups)).numpy()
        wanted = reference.hardest_in_batch(rows, matrix, distance)
        with_match = (matrix == 1).any(axis=1)
        got = HardestInBatchLoss(distance=distance)(groups, rows)
        np.testing.assert_allclose(
            got, wanted[with_match].mean() if with_match.any() else 0, atol=1e-5
        )


def test_hand_worked_pair():
    """Two pairs on the unit circle at 0°, 60° and 180°, 240°: D(pair) = 1, nearest rival = √3.

    0° is √3 away from 240° and 60° is √3 away from 180°, so each hinge is 1 + 1 − √3.
    """
    angles = np.radians([0, 60, 180, 240])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    loss = HardestInBatchLoss()([0, 0, 1, 1], rows)
    np.testing.assert_allclose(loss, 2 - np.sqrt(3), atol=1e-5)


def test_gradient_equals_finite_differences():
    generator = np.random.default_rng(1)
    rows = reference.unit_rows(generator, 8, 4)
    groups = np.repeat(np.arange(4), 2)
    matrix = relations(groups).numpy()
    inputs = tf.constant(rows, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = HardestInBatchLoss()(groups, inputs)
    gradient = tape.gradient(loss, inputs).numpy()
    for place in np.ndindex(rows.shape):
        values = []
        for sign in (1, -1):
            moved = rows.copy()
            moved[place] += sign * 1e-6
            values.append(reference.hardest_in_batch(moved, matrix).mean())
        np.testing.assert_allclose(gradient[place], (values[0] - values[1]) / 2e-6, atol=1e-3)


@pytest.mark.parametrize("distance", DISTANCES)
def test_identical_rows_have_finite_gradients(distance):
    rows = tf.ones([6, 4]) / 2
    with tf.GradientTape() as tape:
        tape.watch(rows)
        loss = HardestInBatchLoss(distance=distance)([0, 0, 1, 1, 2, 2], rows)
    assert loss == 1
    assert np.isfinite(tape.gradient(loss, rows)).all()


def test_margin_must_be_positive():
    with pytest.raises(ValueError, match="margin must be above 0, not 0"):
        HardestInBatchLoss(margin=0)
