"""The result of evaluating one model on one benchmark: scores, and material for reports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from doap_tf.drawing.plots import Bar, Curve
from doap_tf.environment import environment
from doap_tf.metrics import precision_recall_curve, roc_curve

EXAMPLES = 12


@dataclasses.dataclass(frozen=True)
class Examples:
    """Patches for a picture: one row per role, one column per example."""

    title: str
    roles: tuple[str, ...]
    patches: np.ndarray  # uint8 [roles, examples, H, W]


@dataclasses.dataclass(frozen=True)
class Plots:
    """Material for plots, by the title of the panel that shows it.

    Attributes:
        bars: Scores with their parts.
        precision_recall: x is the recall, y the precision.
        roc: x is the false positive rate, y the true positive rate.
        distances: Distances of matching pairs and of others.
        examples: Examples of correct and wrong matches.
    """

    bars: dict[str, Bar] = dataclasses.field(default_factory=dict)
    precision_recall: dict[str, Curve] = dataclasses.field(default_factory=dict)
    roc: dict[str, Curve] = dataclasses.field(default_factory=dict)
    distances: dict[str, tuple[np.ndarray, np.ndarray]] = dataclasses.field(default_factory=dict)
    examples: list[Examples] = dataclasses.field(default_factory=list)

    @classmethod
    def of_pairs(
        cls,
        name: str,
        distances: np.ndarray,
        matches: np.ndarray,
        read: Callable[[np.ndarray], np.ndarray],
    ) -> Plots:
        """Makes the plots of a list of labelled pairs of patches.

        Args:
            name: Title of the list.
            distances: [N].
            matches: bool [N].
            read: Returns the patches uint8 [n, 2, H, W] of the pairs with given indices [n].
        """
        precision, recall = precision_recall_curve(distances, matches)
        order = np.argsort(distances, kind="stable")
        right, wrong = order[matches[order]], order[~matches[order]]
        chosen = {
            "Nearest matches": right[:EXAMPLES],
            "Farthest matches": right[::-1][:EXAMPLES],
            "Nearest non-matches": wrong[:EXAMPLES],
        }
        return cls(
            precision_recall={name: Curve.thinned(recall, precision)},
            roc={name: Curve.thinned(*roc_curve(distances, matches))},
            distances={name: (distances[matches], distances[~matches])},
            examples=[
                Examples(f"{title} ({name})", ("first", "second"), read(indices).swapaxes(0, 1))
                for title, indices in chosen.items()
            ],
        )

    def __or__(self, other: Plots) -> Plots:
        return Plots(
            self.bars | other.bars,
            self.precision_recall | other.precision_recall,
            self.roc | other.roc,
            self.distances | other.distances,
            self.examples + other.examples,
        )


@dataclasses.dataclass(frozen=True)
class Result:
    """Scores of one model on one benchmark.

    Attributes:
        benchmark, protocol, split: What was measured, and how.
        seed: Of random draws; None if there are none.
        model: A `Model` or an `ImageModel`.
        scores: Nested by name; all values are shares in [0, 1].
        summary: Columns of the comparison table.
        plots: Material for plots.
        details: Columns of further tables, by their titles.
        seen: A sentence on what the model has seen of the benchmark; empty if nothing.
        measures: Columns of a table of what is no share, such as seconds.
        further: What else the record has.
    """

    benchmark: str
    protocol: str
    split: str
    seed: int | None
    model: Any
    scores: dict[str, Any]
    summary: dict[str, float]
    plots: Plots = dataclasses.field(default_factory=Plots)
    details: dict[str, dict[str, float]] = dataclasses.field(default_factory=dict)
    seen: str = ""
    measures: dict[str, float] = dataclasses.field(default_factory=dict)
    further: dict[str, Any] = dataclasses.field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Returns what is written as JSON."""
        return {
            "benchmark": self.benchmark,
            "protocol": self.protocol,
            "seen": self.seen,
            "split": self.split,
            "seed": self.seed,
            "model": self.model.name,
            "weights_sha256": self.model.weights_sha256,
            "backend": self.model.backend,
            "precision": self.model.precision,
            "scores": self.scores,
            **({"measures": self.measures} if self.measures else {}),
            **self.further,
            "environment": {**environment(), "training": self.model.training},
        }


def flattened(scores: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields every score with its path, such as `("matching/easy/mean", 0.5)`."""
    for name, value in scores.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value
