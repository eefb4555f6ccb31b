"""The settings of a run that trains keypoints."""

import dataclasses
import math

from doap_tf.appearance import preset
from doap_tf.errors import InputError
from doap_tf.training.config import check_run
from doap_tf.training.keypoint_objective import CELL
from doap_tf.training.schedule import keypoint_cost, learning_rate


@dataclasses.dataclass(frozen=True)
class KeypointConfig:
    """Settings of a run; those of `OPERATIONAL` may change when it is resumed.

    Attributes:
        batch_size: Number of pairs of views in a step, over all replicas.
        steps: Number of updates.
        seed: Of weights, views and the places that are ranked.
        view_size: Side of a view; a multiple of 8 and of `stride`.
        appearance: Name of the changes of the views' appearance.
        descriptor: Name or path of the network that ranks places.
        keypoint_cost: Of a keypoint, in the second half of the run; it rises to that from 0.02.
        stride: Of the network.
        filters: Of the network.
        learning_rate: Of Adam; it decays to zero along a cosine.
        warmup: Share of the run over which the rate rises to that of the cosine.
        clip_norm: Maximum norm of the whole gradient; 0 for no limit.
        synchronized_batch_norm: Whether batch statistics are taken over all replicas.
        xla: Whether the step is compiled.
        checkpoint_every: Steps between checkpoints.
        validate_every: Steps between validations, where there are photographs to validate on.
        log_every: Steps between entries of the log.
    """

    batch_size: int = 8
    steps: int = 8_500
    seed: int = 0
    view_size: int = 224
    appearance: str = "camera"
    descriptor: str = "doap-128"
    keypoint_cost: float = 0.5
    stride: int = 2
    filters: tuple[int, ...] = (16, 16, 16, 16)
    learning_rate: float = 2e-3
    warmup: float = 0.01
    clip_norm: float = 1.0
    synchronized_batch_norm: bool = False
    xla: bool = False
    checkpoint_every: int = 500
    validate_every: int = 500
    log_every: int = 10

    def __post_init__(self) -> None:
        check_run(self)
        preset(self.appearance)
        if not 0 <= self.keypoint_cost < 1:
            raise InputError(f"keypoint_cost must be in [0, 1), not {self.keypoint_cost}.")
        if self.stride < 1 or not self.filters or min(self.filters) < 1:
            raise InputError(
                f"stride and filters must be positive, not {self.stride} and {self.filters}."
            )
        if self.view_size < 1 or self.view_size % math.lcm(CELL, self.stride):
            raise InputError(
                f"view_size must be a multiple of {CELL} and of the stride {self.stride}, "
                f"not {self.view_size}."
            )

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        return learning_rate("cosine", self.learning_rate, step, self.steps, 0, self.warmup)

    def cost_at(self, step: int) -> float:
        """Returns the cost of a keypoint at a step, counted from 0."""
        return keypoint_cost(self.keypoint_cost, step, self.steps)
