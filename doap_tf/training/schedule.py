"""What changes over a run: the learning rate and the cost of a keypoint."""

import math

SCHEDULES = ("linear", "step", "cosine")
_FIRST_COST = 0.02


def learning_rate(
    schedule: str, base: float, step: int, steps: int, decay_steps: int, warmup: float = 0.0
) -> float:
    """Returns the rate at a step, counted from 0.

    Args:
        schedule: `"linear"` to zero over all steps, `"step"` divides by ten after every
            `decay_steps`, `"cosine"` to zero over all steps.
        base: Rate at the start of the schedule.
        step: Number of the step.
        steps: Number of steps of the run.
        decay_steps: For `"step"`.
        warmup: Share of the run over which a factor of the rate rises linearly to 1.
    """
    if step + 1 < warmup * steps:
        base *= (step + 1) / (warmup * steps)
    if schedule == "linear":
        return base * (1 - step / steps)
    if schedule == "step":
        return base * 0.1 ** (step // decay_steps)
    return base * (1 + math.cos(math.pi * step / steps)) / 2


def keypoint_cost(final: float, step: int, steps: int) -> float:
    """Returns the cost of a keypoint at a step, counted from 0: it rises over half of the run."""
    return _FIRST_COST + (final - _FIRST_COST) * min(1, 2 * step / steps)
