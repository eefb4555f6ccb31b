import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

from doap_tf.losses import DistillationLoss


def unit_rows(shape, seed):
    rows = np.random.default_rng(seed).normal(size=shape)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def divergences(teacher, student, temperature):
    """Kullback–Leibler divergences in float64, query by query."""
    values = []
    for query in range(len(teacher)):
        others = np.arange(len(teacher)) != query
        wanted, found = (
            log_softmax(rows[others] @ rows[query] / temperature) for rows in (teacher, student)
        )
        values.append((np.exp(wanted) * (wanted - found)).sum())
    return np.array(values)


def test_equals_a_reference_for_networks_of_other_dimensions():
    teacher, student = unit_rows([9, 8], seed=0), unit_rows([9, 4], seed=1)
    # The length of a row, such as that of tanh codes, does not matter.
    loss = DistillationLoss(temperature=0.2, reduction="none")(teacher, 3 * student)
    np.testing.assert_allclose(loss, divergences(teacher, student, 0.2), rtol=1e-5)


def test_gradient_equals_finite_differences():
    teacher, student = unit_rows([6, 5], seed=2), unit_rows([6, 3], seed=3)
    variable = tf.Variable(student, dtype=tf.float32)
    with tf.GradientTape() as tape:
        loss = DistillationLoss(temperature=0.3)(teacher, variable)
    step = 1e-5
    expected = np.zeros_like(student)
    for place in np.ndindex(student.shape):
        values = []
        for sign in (1, -1):
            moved = student.copy()
            moved[place] += sign * step
            moved /= np.linalg.norm(moved, axis=1, keepdims=True)
            values.append(divergences(teacher, moved, 0.3).mean())
        expected[place] = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(tape.gradient(loss, variable), expected, atol=1e-5)


def test_is_zero_for_a_turned_teacher():
    teacher = unit_rows([7, 4], seed=4)
    turn, _ = np.linalg.qr(np.random.default_rng(5).normal(size=[4, 4]))
    assert float(DistillationLoss()(teacher, teacher @ turn)) == pytest.approx(0, abs=1e-5)


def test_settings_survive_and_bad_ones_are_refused():
    loss = DistillationLoss(temperature=0.5)
    assert DistillationLoss.from_config(loss.get_config()).temperature == 0.5
    with pytest.raises(ValueError, match="temperature must be above 0"):
        DistillationLoss(temperature=0)
