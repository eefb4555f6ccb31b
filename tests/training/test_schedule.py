import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.training.config import TrainingConfig
from doap_tf.training.schedule import learning_rate


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("linear", [2, 1.5, 1, 0.5]),
        ("step", [2, 2, 0.2, 0.2]),
        ("cosine", [2, 1 + np.sqrt(0.5), 1, 1 - np.sqrt(0.5)]),
    ],
)
def test_rates(schedule, expected):
    got = [learning_rate(schedule, 2.0, step, steps=4, decay_steps=2) for step in range(4)]
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_rate_that_falls_in_steps_needs_their_length():
    with pytest.raises(InputError, match="'step' requires decay_steps of at least 1, not 0"):
        TrainingConfig(schedule="step")


def test_the_rate_rises_over_a_share_of_the_run_while_the_schedule_continues():
    got = [learning_rate("linear", 2.0, step, 8, decay_steps=1, warmup=0.5) for step in range(8)]
    falling = 2.0 * (1 - np.arange(8) / 8)
    np.testing.assert_allclose(got, falling * [0.25, 0.5, 0.75, 1, 1, 1, 1, 1], atol=1e-12)


def test_a_run_scales_its_rate_with_the_batch_and_starts_slowly():
    config = TrainingConfig(batch_size=2048, steps=8, learning_rate=0.5, warmup=0.5)
    np.testing.assert_allclose(
        [config.rate_at(step) for step in (0, 3, 7)], [1 / 4, 5 / 8, 1 / 8], atol=1e-12
    )
