"""The settings of training runs: of any run, and of one that trains a descriptor network."""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from doap_tf.errors import InputError, check_choice
from doap_tf.training.schedule import SCHEDULES, learning_rate

PRECISIONS = ("float32", "mixed_bfloat16")
OPERATIONAL = frozenset({"checkpoint_every", "validate_every", "log_every"})


def setting(
    default: Any, help_text: str, choices: Collection[str] = (), automatic: bool = False
) -> Any:
    """Returns a field of a configuration that commands offer as a flag.

    Args:
        default: Its default.
        help_text: What it does, in a line.
        choices: The values that are allowed; by default all.
        automatic: Whether commands choose the value where it is not given.
    """
    metadata = {"help": help_text, "choices": choices, "automatic": automatic}
    return dataclasses.field(default=default, metadata=metadata)


def offered_settings(config: type) -> Iterator[tuple[dataclasses.Field, Mapping[str, Any]]]:
    """Yields the fields that are flags, each with what `setting` was told about it.

    A subclass that changes only a default keeps the help text of its base.
    """
    for field in dataclasses.fields(config):
        for base in config.__mro__:
            declared = getattr(base, "__dataclass_fields__", {}).get(field.name)
            if declared is not None and declared.metadata:
                yield field, declared.metadata
                break


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Settings of any run; those of `OPERATIONAL` may change when it is resumed."""

    batch_size: int
    steps: int
    learning_rate: float
    initial: str = setting(
        "",
        "Networks to start from instead of by chance, by name or file, with commas between them.",
    )
    warmup: float = setting(0.0, "Share of the run over which the rate rises to its schedule's.")
    clip_norm: float = setting(0.0, "Maximum norm of the whole gradient; 0 for no limit.")
    seed: int = setting(0, "Of weights, batches, dropout, augmentation and validation split.")
    synchronized_batch_norm: bool = setting(False, "Take batch statistics over all replicas.")
    xla: bool = setting(False, "Compile the step; by default on GPUs only.", automatic=True)
    checkpoint_every: int = setting(500, "Steps between checkpoints.")
    validate_every: int = setting(500, "Steps between validations.")
    log_every: int = setting(10, "Steps between entries of the log.")

    def __post_init__(self) -> None:
        for name in ("batch_size", "steps", "checkpoint_every", "validate_every", "log_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.seed < 0:
            raise InputError(f"seed must not be negative, but is {self.seed}.")
        if not 0 < self.learning_rate < math.inf:
            raise InputError(f"learning_rate must be above 0, not {self.learning_rate}.")
        if not 0 <= self.clip_norm < math.inf:
            raise InputError(f"clip_norm must be 0 or above, not {self.clip_norm}.")
        if not 0 <= self.warmup < 1:
            raise InputError(f"warmup must be in [0, 1), not {self.warmup}.")
        for field, declared in offered_settings(type(self)):
            value, choices = getattr(self, field.name), declared["choices"]
            if choices:
                check_choice(field.name, value, choices)

    @property
    def initial_networks(self) -> list[str]:
        """The networks that `initial` names."""
        return names_of(self.initial)

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0: along a cosine to zero."""
        return learning_rate("cosine", self.learning_rate, step, self.steps, 0, self.warmup)


@dataclasses.dataclass(frozen=True)
class TrainingConfig(RunConfig):
    """Settings of a run that trains a descriptor network."""

    batch_size: int = setting(1024, "Number of patches in a list, over all replicas.")
    steps: int = setting(
        1000, "Length of the run in steps; takes precedence over epochs.", automatic=True
    )
    learning_rate: float = setting(0.1, "At 1,024 patches; scaled linearly with the batch size.")
    schedule: str = setting("linear", "How the rate decays.", SCHEDULES)
    decay_steps: int = 0  # after which the schedule "step" divides the rate by ten
    momentum: float = 0.9  # of SGD
    weight_decay: float = setting(1e-4, "Of kernels, coupled with the gradient.")
    # The paper uses 0.01 at a rate of 0.1; at five times that rate it diverges.
    transformer_rate: float = setting(1e-4, "Factor of the rate of the transformer's last layer.")
    same_sequence: str = setting(
        "ignored",
        "How other groups of the same sequence count; mined, the default with label mining: as "
        "distractors where it found them far apart.",
        ("ignored", "distractors", "mined"),
        automatic=True,
    )
    loss: str = setting(
        "average_precision", "average_precision, hardest_in_batch, hardnet or another of LOSSES."
    )
    form: str = setting("tie_aware", "Form of Average Precision: tie_aware or fast.")
    distance: str = setting("euclidean", "What a real head is ranked by.", ("euclidean", "squared"))
    bins: int = setting(
        0, "Histogram bins; 0 for 25, 6 of squared distances, or one per bit of a binary head."
    )
    margin: float = setting(1.0, "Of hardest_in_batch and hardnet.")
    teacher: str = setting(
        "",
        "Network whose ranking of each list is learnt as well, such as doap-128; the mean of "
        "several with commas between them.",
    )
    teacher_weight: float = setting(1.0, "Weight of learning from the teacher beside the loss.")
    head: str = setting("real", "real (unit vectors) or binary (bits).")
    dimension: int = setting(128, "Number of values or bits.")
    trunk: str = setting("l2net", "Convolutions: l2net, or for CPUs fast or tiny.")
    width: float = setting(1.0, "Multiplier of the network's filters.")
    dropout: float = setting(0.1, "Share of activations dropped before the last convolution.")
    spatial_transformer: bool = setting(False, "Align patches with a spatial transformer.")
    padding: str = setting(
        "replicate", "What the transformer sees outside a patch: replicate, symmetric or zeros."
    )
    magnification: float = setting(
        14.0,
        "What patches were cut at, kept with the model: that of the groups by default. "
        "Photographs are cut at it, 14 by default.",
        automatic=True,
    )
    turn: bool = setting(False, "Flip groups and turn them by quarters at random.")
    precision: str = setting(
        "float32", "Of the network; by default bfloat16 on GPUs.", PRECISIONS, automatic=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head == "binary" and self.distance != "euclidean":
            raise InputError(
                f"distance {self.distance!r} is for real heads: leave it out for binary ones, "
                "which are ranked by the Hamming distance."
            )
        if self.schedule == "step" and self.decay_steps < 1:
            raise InputError(
                f"the schedule 'step' requires decay_steps of at least 1, not {self.decay_steps}."
            )
        for name in ("margin", "teacher_weight"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0, not {getattr(self, name)}.")

    @property
    def teachers(self) -> list[str]:
        """The networks that `teacher` names."""
        return names_of(self.teacher)

    def rate_at(self, step: int) -> float:
        """Returns the learning rate of a step, counted from 0."""
        base = self.learning_rate * self.batch_size / 1024
        return learning_rate(self.schedule, base, step, self.steps, self.decay_steps, self.warmup)


def names_of(listed: str) -> list[str]:
    """Returns the names in a setting that has commas between them."""
    return [name for name in listed.split(",") if name]


def incompatibility(now: Any, before: dict[str, Any]) -> str | None:
    """Describes the first setting that keeps a run from being resumed; None if there is none."""
    for field in dataclasses.fields(now):
        # A setting that did not exist then had the value that is its default now.
        old, new = before.get(field.name, field.default), getattr(now, field.name)
        if isinstance(old, list):  # JSON has no tuples
            old = tuple(old)
        if field.name not in OPERATIONAL and old != new:
            return f"{field.name} was {old!r} and is {new!r} now"
    return None
