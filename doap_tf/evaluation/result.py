"""What an evaluation of one model on one benchmark gives: scores, and material for plots."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from doap_tf.evaluation.model import Model
from doap_tf.parallel import cores
from doap_tf.version import __version__

_CURVE_POINTS = 500


@dataclasses.dataclass(frozen=True)
class Curve:
    """A rising or falling line for a plot."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def thinned(cls, x: np.ndarray, y: np.ndarray) -> Curve:
        """Keeps what a plot can show of a curve with ascending x."""
        # Even steps along x, not along the index: long lists crowd at one end.
        wanted = np.linspace(x[0], x[-1], _CURVE_POINTS)
        kept = np.unique(np.append(np.searchsorted(x, wanted), len(x) - 1))
        return cls(x[kept], y[kept])


@dataclasses.dataclass(frozen=True)
class Strip:
    """Examples for a picture: one row of patches a role, one column an example."""

    title: str
    roles: tuple[str, ...]
    patches: np.ndarray  # uint8 [roles, examples, H, W]


@dataclasses.dataclass(frozen=True)
class Plots:
    """Material for plots; curves and distances by the name of the plot that they belong to.

    Attributes:
        precision_recall: x is recall, y precision.
        roc: x is the false positive rate, y the true one.
        distances: Distances of matches and of others.
        strips: Examples of right and wrong matches.
    """

    precision_recall: dict[str, Curve] = dataclasses.field(default_factory=dict)
    roc: dict[str, Curve] = dataclasses.field(default_factory=dict)
    distances: dict[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    strips: list[Strip] = dataclasses.field(default_factory=list)

    def __or__(self, other: Plots) -> Plots:
        return Plots(
            self.precision_recall | other.precision_recall,
            self.roc | other.roc,
            self.distances | other.distances,
            self.strips + other.strips,
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """Scores of one model on one benchmark.

    Attributes:
        benchmark, protocol, split: How it was measured.
        seed: Of what was drawn at random; None where nothing was.
        model: What was measured.
        scores: Nested by name; all values are shares in [0, 1].
        summary: The columns of the comparison table.
        plots: Material for plots.
    """

    benchmark: str
    protocol: str
    split: str
    seed: int | None
    model: Model
    scores: dict[str, Any]
    summary: dict[str, float]
    plots: Plots = dataclasses.field(default_factory=Plots)

    def record(self) -> dict[str, Any]:
        """What is written as JSON."""
        return {
            "benchmark": self.benchmark,
            "protocol": self.protocol,
            "split": self.split,
            "seed": self.seed,
            "model": self.model.name,
            "weights_sha256": self.model.weights_sha256,
            "scores": self.scores,
            "environment": environment() | {"training": self.model.training},
        }


def environment() -> dict[str, Any]:
    """Versions and hardware that numbers may depend on."""
    import cv2

    return {
        "doap_tf": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "opencv": cv2.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": cores(),
    }


def flattened(scores: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields every score with its path, such as `("matching/easy/mean", 0.5)`."""
    for name, value in scores.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value
