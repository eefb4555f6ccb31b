"""The settings of a training run."""

import dataclasses
import math
from typing import Any

from doap_tf.errors import InputError
from doap_tf.features.frames import DEFAULT_MAGNIFICATION
from doap_tf.training.schedule import SCHEDULES, learning_rate

LOSSES = ("average_precision", "hardest_in_batch")
SAME_SEQUENCE = ("ignored", "distractors", "mined")
PRECISIONS = ("float32", "mixed_bfloat16")
REAL_DISTANCES = ("euclidean", "squared")


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """Settings of a run; those of `OPERATIONAL` may change when it is resumed.

    Attributes:
        batch_size: Number of patches in a list, over all replicas.
        steps: Number of updates.
        seed: Of weights, batches, dropout and augmentation.
        learning_rate: At 1,024 patches; scaled linearly with the batch size.
        schedule: How the rate decays, see `schedule.learning_rate`.
        warmup: Share of the run over which the rate rises to that of the schedule. It makes
            training less sensitive to a rate that is too high (docs/results.md).
        decay_steps: Number of steps after which `"step"` divides the rate by ten.
        momentum: Of SGD.
        weight_decay: Added to the gradient of kernels, times the kernel.
        transformer_rate: Factor of the rate of the spatial transformer's prediction layer. The
            paper uses 0.01 at a rate of 0.1; at five times that rate it diverges.
        clip_norm: Maximum norm of the whole gradient; 0 for no limit.
        same_sequence: How patches of other groups of the same sequence count: `"ignored"`,
            `"distractors"`, or `"mined"`: as distractors where label mining found them far apart.
        loss: `"average_precision"` or `"hardest_in_batch"`.
        form: Form of Average Precision.
        distance: Distance that descriptors of a real head are ranked by, `"euclidean"` or
            `"squared"`: the order is the same, but the histogram bins differ. Binary heads use the
            Hamming distance.
        bins: Number of histogram bins; 0 for the default of the distance.
        teacher: Network whose ranking of each list the network learns as well: anything that
            `from_pretrained` takes but an export, or several with commas between them, whose
            similarities are averaged; none if empty. Patches are resized where it takes another
            size.
        teacher_weight: Weight of `DistillationLoss` beside the loss.
        head: `"real"` or `"binary"`.
        dimension: Number of values or bits.
        trunk: Name of the network's convolutions, see `DescriptorNetwork`.
        width: Multiplier of the network's filters.
        dropout: Before the last convolution.
        spatial_transformer: Whether patches are aligned first.
        padding: What the transformer sees outside a patch.
        magnification: What the patches were cut at.
        turn: Whether groups are flipped and turned by quarters at random.
        synchronized_batch_norm: Whether batch statistics are taken over all replicas.
        precision: `"float32"` or `"mixed_bfloat16"`.
        xla: Whether the step is compiled.
        checkpoint_every: Steps between checkpoints.
        validate_every: Steps between validations, where there are groups to validate on.
        log_every: Steps between entries of the log.
    """

    batch_size: int = 1024
    steps: int = 1000
    seed: int = 0
    learning_rate: float = 0.1
    schedule: str = "linear"
    warmup: float = 0.0
    decay_steps: int = 0
    momentum: float = 0.9
    weight_decay: float = 1e-4
    transformer_rate: float = 1e-4
    clip_norm: float = 0.0
    same_sequence: str = "ignored"
    loss: str = "average_precision"
    form: str = "tie_aware"
    distance: str = "euclidean"
    bins: int = 0
    teacher: str = ""
    teacher_weight: float = 1.0
    head: str = "real"
    dimension: int = 128
    trunk: str = "l2net"
    width: float = 1.0
    dropout: float = 0.1
    spatial_transformer: bool = False
    padding: str = "replicate"
    magnification: float = DEFAULT_MAGNIFICATION
    turn: bool = False
    synchronized_batch_norm: bool = False
    precision: str = "float32"
    xla: bool = False
    checkpoint_every: int = 500
    validate_every: int = 500
    log_every: int = 10

    def __post_init__(self) -> None:
        check_run(self)
        for name, allowed in (
            ("schedule", SCHEDULES),
            ("same_sequence", SAME_SEQUENCE),
            ("loss", LOSSES),
            ("distance", REAL_DISTANCES),
            ("precision", PRECISIONS),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}."
                )
        if self.head == "binary" and self.distance != "euclidean":
            raise InputError(
                f"distance {self.distance!r} is for real heads: leave it out for binary ones, "
                "which are ranked by the Hamming distance."
            )
        if self.schedule == "step" and self.decay_steps < 1:
            raise InputError(
                f"the schedule 'step' requires decay_steps of at least 1, not {self.decay_steps}."
            )
        if not self.teacher_weight > 0:
            raise InputError(f"teacher_weight must be above 0, not {self.teacher_weight}.")

    @property
    def teachers(self) -> list[str]:
        """The networks that `teacher` names."""
        return [name for name in self.teacher.split(",") if name]

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        base = self.learning_rate * self.batch_size / 1024
        return learning_rate(self.schedule, base, step, self.steps, self.decay_steps, self.warmup)


def check_run(config: Any) -> None:
    """Refuses bad values of the settings that every run has."""
    for name in ("batch_size", "steps", "checkpoint_every", "validate_every", "log_every"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, not {getattr(config, name)}.")
    if config.seed < 0:
        raise InputError(f"seed must not be negative, but is {config.seed}.")
    if not 0 < config.learning_rate < math.inf:
        raise InputError(f"learning_rate must be above 0, not {config.learning_rate}.")
    if not 0 <= config.clip_norm < math.inf:
        raise InputError(f"clip_norm must be 0 or above, not {config.clip_norm}.")
    if not 0 <= config.warmup < 1:
        raise InputError(f"warmup must be in [0, 1), not {config.warmup}.")


OPERATIONAL = frozenset({"checkpoint_every", "validate_every", "log_every"})


def difference(now: Any, before: dict[str, Any]) -> str | None:
    """Describes the first setting that keeps a run from being resumed; None if there is none."""
    for field in dataclasses.fields(now):
        # A setting that did not exist then had the value that is its default now.
        old, new = before.get(field.name, field.default), getattr(now, field.name)
        if isinstance(old, list):  # JSON has no tuples
            old = tuple(old)
        if field.name not in OPERATIONAL and old != new:
            return f"{field.name} was {old!r} and is {new!r} now"
    return None
