"""The settings of a run that trains a dense network."""

import dataclasses

from doap_tf.appearance import PRESETS
from doap_tf.errors import InputError
from doap_tf.losses import CORRESPONDENCE_LOSSES
from doap_tf.networks import DENSE_PRESETS
from doap_tf.training.config import PRECISIONS, RunConfig, setting
from doap_tf.training.schedule import keypoint_cost

_SMALLEST_VIEW = 64


@dataclasses.dataclass(frozen=True)
class DenseConfig(RunConfig):
    """Settings of a run that trains a dense network."""

    network: str = setting("dense-128", "Structure of the network.", DENSE_PRESETS)
    loss: str = setting("average_precision", "Of descriptors.", CORRESPONDENCE_LOSSES)
    distance: str = setting("euclidean", "Of floats in the loss.", ("euclidean", "squared"))
    bins: int = setting(25, "Histogram bins of the Average Precision.")
    batch_size: int = setting(16, "Number of pairs of views in a step, over all replicas.")
    points: int = setting(256, "Number of corners of a pair that are described.")
    view_size: int = setting(320, "Side of a view, a multiple of 32.")
    webcam_share: float = setting(0.25, "Share of the pairs that show two images of one webcam.")
    track_share: float = setting(
        0.25,
        "Share of the pairs that show two photographs of a reconstructed scene, where there are "
        "any; webcam_share is then that of the others.",
    )
    appearance: str = setting("strong", "Changes of appearance of the views.", PRESETS)
    keypoint_cost: float = setting(
        0.5,
        "Of a keypoint, after half of the run, as a share of the mean Average Precision of all "
        "places: the higher, the fewer and better.",
    )
    steps: int = setting(16_000, "Number of updates.")
    learning_rate: float = setting(3e-3, "Of AdamW; it decays to zero along a cosine.")
    weight_decay: float = setting(1e-4, "Of AdamW.")
    warmup: float = 0.0125
    clip_norm: float = 5.0
    precision: str = setting(
        "float32", "Of the network; by default bfloat16 on GPUs.", PRECISIONS, automatic=True
    )
    checkpoint_every: int = 1000
    validate_every: int = 1000
    log_every: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bins < 2 or self.points < 1:
            raise InputError(
                f"bins must be at least 2 and points 1, not {self.bins} and {self.points}."
            )
        if self.view_size < _SMALLEST_VIEW or self.view_size % 32:
            raise InputError(
                f"view_size must be a multiple of 32 and at least {_SMALLEST_VIEW}, "
                f"not {self.view_size}."
            )
        for name in ("webcam_share", "keypoint_cost"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"{name} must be in [0, 1], not {getattr(self, name)}.")
        if not 0 <= self.track_share < 1:
            raise InputError(f"track_share must be in [0, 1), not {self.track_share}.")
        if not self.weight_decay >= 0:
            raise InputError(f"weight_decay must be 0 or above, not {self.weight_decay}.")

    def cost_at(self, step: int) -> float:
        """Returns the cost of a keypoint at a step, counted from 0."""
        return keypoint_cost(self.keypoint_cost, step, self.steps)
