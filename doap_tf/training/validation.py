"""Scores of a descriptor on held-out patch groups, by which models are chosen."""

from typing import NamedTuple

import numpy as np

from doap_tf import metrics
from doap_tf.data import PatchGroups
from doap_tf.descriptors import PatchDescriptor
from doap_tf.errors import InputError

_LARGEST_LIST = 1000
LEVELS = {"easy": range(1, 6), "hard": range(6, 11), "tough": range(11, 16)}
_HPATCHES_VIEWS = 16


class Evaluation(NamedTuple):
    """Scores by name, and the distances of matching and of other pairs."""

    scores: dict[str, float]
    matching_distances: np.ndarray
    other_distances: np.ndarray


class Validation:
    """Matching among groups that are never trained on.

    The first patch of each group is the reference, the others are targets; groups of the same
    sequence (or, without sequences, of a random list of at most 1,000) compete with each other.

    Args:
        groups: The held-out groups.
        seed: Orders groups that have no sequence.
    """

    def __init__(self, groups: PatchGroups, seed: int = 0):
        self.groups = groups
        self._lists = [
            part for part in _lists(groups, np.random.default_rng(seed)) if len(part) >= 2
        ]
        if not self._lists:
            raise InputError(
                f"{groups.source} has fewer than two groups of several patches to validate on: "
                "hold out a larger fraction."
            )

    def evaluate(self, descriptor: PatchDescriptor) -> Evaluation:
        """Computes matching mAP, by level too where groups have HPatches' 16 views, and FPR95."""
        views: dict[int, list[float]] = {}
        matching, other = [], []
        for members in self._lists:
            sizes = self.groups.group_sizes[members]
            rows = [self.groups.rows_of(group) for group in members]
            described = descriptor.describe(self.groups.patches[np.concatenate(rows)])
            starts = np.cumsum(sizes) - sizes
            for view in range(1, sizes.max()):
                have = starts[sizes > view]
                if len(have) < 2:
                    break
                references, targets = described[have], described[have + view]
                views.setdefault(view, []).append(
                    metrics.matching_average_precision(references, targets, descriptor.norm)
                )
                matching.append(metrics.paired_distances(references, targets, descriptor.norm))
                others = np.roll(targets, 1, axis=0)
                other.append(metrics.paired_distances(references, others, descriptor.norm))
        distances = np.concatenate([*matching, *other])
        half = len(distances) // 2
        matches = np.arange(len(distances)) < half
        means = {view: float(np.mean(values)) for view, values in views.items()}
        scores = {
            "matching_map": float(np.mean(list(means.values()))),
            "fpr95": metrics.false_positive_rate(distances, matches),
        }
        if max(means) == _HPATCHES_VIEWS - 1:
            for level, numbers in LEVELS.items():
                scores[f"matching_map_{level}"] = float(np.mean([means[v] for v in numbers]))
        return Evaluation(scores, distances[:half], distances[half:])


def _lists(groups: PatchGroups, rng: np.random.Generator) -> list[np.ndarray]:
    """Returns lists of groups that compete with each other."""
    parts = [members[:_LARGEST_LIST] for members in groups.groups_by_sequence.values()]
    alone = rng.permutation(np.flatnonzero(groups.group_sequence < 0))
    alone = alone[groups.group_sizes[alone] >= 2]
    count = -(-len(alone) // _LARGEST_LIST)
    parts += np.array_split(alone, count)[:10] if count else []
    return [members[groups.group_sizes[members] >= 2] for members in parts]
