"""The settings of a run that trains a dense network."""

import dataclasses

from doap_tf.appearance import PRESETS
from doap_tf.errors import InputError
from doap_tf.losses import CORRESPONDENCE_LOSSES
from doap_tf.networks import DENSE_PRESETS
from doap_tf.training.config import PRECISIONS, check_run
from doap_tf.training.schedule import keypoint_cost, learning_rate

_SMALLEST_VIEW = 64


@dataclasses.dataclass(frozen=True)
class DenseConfig:
    """Settings of a run; those of `OPERATIONAL` may change when it is resumed.

    Attributes:
        network: Name of the network's structure, one of `DENSE_PRESETS`.
        loss: Of descriptors, one of `CORRESPONDENCE_LOSSES`.
        bins: Number of histogram bins of the Average Precision.
        batch_size: Number of pairs of views in a step, over all replicas.
        points: Number of corners of a pair that are described.
        view_size: Side of a view, a multiple of 32.
        webcam_share: Share of the pairs that show two images of one webcam.
        appearance: Name of the changes of appearance, one of `appearance.PRESETS`.
        keypoint_cost: Of a keypoint, in the second half of the run; it rises to that from 0.02.
        steps: Number of updates.
        seed: Of weights, views and the places that are ranked.
        learning_rate: Of AdamW; it decays to zero along a cosine.
        warmup: Share of the run over which the rate rises to that of the cosine.
        weight_decay: Of AdamW.
        clip_norm: Maximum norm of the whole gradient; 0 for no limit.
        synchronized_batch_norm: Whether batch statistics are taken over all replicas.
        precision: Dtype policy of the network in training.
        xla: Whether the step is compiled.
        checkpoint_every: Steps between checkpoints.
        validate_every: Steps between validations.
        log_every: Steps between entries of the log.
    """

    network: str = "dense-128"
    loss: str = "average_precision"
    bins: int = 25
    batch_size: int = 16
    points: int = 256
    view_size: int = 320
    webcam_share: float = 0.25
    appearance: str = "strong"
    keypoint_cost: float = 0.5
    steps: int = 16_000
    seed: int = 0
    learning_rate: float = 3e-3
    warmup: float = 0.0125
    weight_decay: float = 1e-4
    clip_norm: float = 5.0
    synchronized_batch_norm: bool = False
    precision: str = "float32"
    xla: bool = False
    checkpoint_every: int = 1000
    validate_every: int = 1000
    log_every: int = 50

    def __post_init__(self) -> None:
        check_run(self)
        for name, allowed in (
            ("network", DENSE_PRESETS),
            ("loss", CORRESPONDENCE_LOSSES),
            ("appearance", PRESETS),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}."
                )
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
        if not self.weight_decay >= 0:
            raise InputError(f"weight_decay must be 0 or above, not {self.weight_decay}.")

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        return learning_rate("cosine", self.learning_rate, step, self.steps, 0, self.warmup)

    def cost_at(self, step: int) -> float:
        """Returns the cost of a keypoint at a step, counted from 0."""
        return keypoint_cost(self.keypoint_cost, step, self.steps)
