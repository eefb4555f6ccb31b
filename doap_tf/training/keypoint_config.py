"""The settings of a run that trains keypoints."""

import dataclasses
import math

from doap_tf.appearance import PRESETS
from doap_tf.errors import InputError
from doap_tf.training.config import RunConfig, setting
from doap_tf.training.schedule import keypoint_cost

CELL = 8  # pixels, the side of the cells that have at most one keypoint


@dataclasses.dataclass(frozen=True)
class KeypointConfig(RunConfig):
    """Settings of a run that trains keypoints."""

    batch_size: int = setting(8, "Number of pairs of views in a step, over all replicas.")
    steps: int = setting(8_500, "Number of updates.")
    view_size: int = setting(224, "Side of a view; a multiple of 8 and of the stride.")
    appearance: str = setting(
        "camera", "Changes of the views' appearance (docs/appearance.md).", PRESETS
    )
    descriptor: str = setting(
        "doap-128", "Network whose ranking of the keypoints tells which are worth detecting."
    )
    keypoint_cost: float = setting(
        0.5, "Of a keypoint, after half of the run: the higher, the fewer and better."
    )
    stride: int = setting(2, "Side of the blocks of pixels that the network works on.")
    filters: tuple[int, ...] = setting(
        (16, 16, 16, 16), "Output channels of each convolution, with commas between them."
    )
    learning_rate: float = setting(2e-3, "Of Adam; it decays to zero along a cosine.")
    warmup: float = 0.01
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def cost_at(self, step: int) -> float:
        """Returns the cost of a keypoint at a step, counted from 0."""
        return keypoint_cost(self.keypoint_cost, step, self.steps)
