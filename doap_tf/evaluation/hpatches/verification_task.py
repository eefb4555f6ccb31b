"""HPatches' verification task: tell matching pairs of patches from others by distance."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.drawing.plots import Curve
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.tasks import IMAGES, Pairs, VerificationTask
from doap_tf.evaluation.result import Plots
from doap_tf.metrics import (
    average_precision,
    paired_distances,
    precision_recall_curve,
    roc_auc,
    roc_curve,
)
from doap_tf.metrics.distances import blocks
from doap_tf.parallel import cores, parallel_map
from doap_tf.progress import progress

_IMBALANCE = 0.2  # share of the positives in the imbalanced protocol


def evaluate_verification(
    descriptors: StripDescriptors, task: VerificationTask, method: str, memory_mb: float
) -> tuple[dict[str, Any], Plots]:
    """Returns scores by level, origin of the negatives and protocol, with their curves."""
    kinds = {"same_sequence": task.same_sequence}
    if len(descriptors.sequences.lengths) > 1:
        kinds["other_sequences"] = task.other_sequences
    scores: dict[str, Any] = {}
    plots = Plots()
    for level, prefix in LEVELS.items():
        positives, *negatives = _distances(
            descriptors, prefix, [task.positives, *kinds.values()], memory_mb
        )
        few = positives[: int(len(positives) * _IMBALANCE)]
        scores[level] = {}
        for kind, others in zip(kinds, negatives, strict=True):
            balanced, imbalanced = _labelled(others, positives), _labelled(others, few)
            scores[level][kind] = {
                "balanced_auc": roc_auc(*balanced),
                "balanced_auc_in_order": roc_auc(*balanced, ties="in_order"),
                "imbalanced_ap": average_precision(*imbalanced, method),
            }
            name = f"verification, {kind.replace('_', ' ')}, {level}"
            plots.roc[name] = Curve.thinned(*roc_curve(*balanced))
            precision, recall = precision_recall_curve(*imbalanced)
            plots.precision_recall[name] = Curve.thinned(recall, precision)
    for protocol in ("balanced_auc", "balanced_auc_in_order", "imbalanced_ap"):
        values = [scores[level][kind][protocol] for level in LEVELS for kind in kinds]
        scores[f"mean_{protocol}"] = float(np.mean(values))
    return scores, plots


def _labelled(negatives: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns distances and labels with the negatives first: ties count against the descriptor."""
    distances = np.concatenate([negatives, positives])
    return distances, np.arange(len(distances)) >= len(negatives)


def _distances(
    descriptors: StripDescriptors, prefix: str, lists: Sequence[Pairs], memory_mb: float
) -> list[np.ndarray]:
    """Returns the distances [N] of the pairs of each list at one level.

    Only the descriptors of two batches of sequences are in memory at a time; every pair belongs to
    one combination of batches.
    """
    names = list(descriptors.sequences.lengths)
    lengths = np.array(list(descriptors.sequences.lengths.values()))
    row_bytes = descriptors.load(names[0], "ref")[:1].nbytes
    before = np.cumsum(lengths * IMAGES) - lengths * IMAGES
    batch_bytes = max(1, int(memory_mb * 2**20 / 8))
    batches, batch_of = np.unique(before * row_bytes // batch_bytes, return_inverse=True)
    starts = before - before[np.searchsorted(batch_of, batch_of)]  # of sequences in their batches

    def load(batch: int) -> np.ndarray:
        return np.concatenate(
            [
                descriptors.load(names[number], f"{prefix}{image}" if image else "ref")
                for number in np.flatnonzero(batch_of == batch)
                for image in range(IMAGES)
            ]
        )

    def rows(patches: np.ndarray) -> np.ndarray:
        sequences, images, indices = patches.T
        return starts[sequences] + lengths[sequences] * images + indices

    def measure(pairs: Pairs, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        left, right = rows(pairs.first), rows(pairs.second)
        # Two gathered rows and their difference in float64, on each core.
        steps = blocks(len(left), 6 * row_bytes * cores(), memory_mb / 8)
        parts = parallel_map(
            lambda step: paired_distances(first[left[step]], second[right[step]], descriptors.norm),
            steps,
        )
        return np.concatenate(parts) if parts else np.empty(0, np.float32)

    distances = [np.empty(len(pairs.first), np.float32) for pairs in lists]
    for i in progress(range(len(batches)), f"verification ({prefix})"):
        first = load(i)
        for j in range(len(batches)):
            second = first if i == j else load(j)
            for pairs, result in zip(lists, distances, strict=True):
                chosen = np.flatnonzero(
                    (batch_of[pairs.first[:, 0]] == i) & (batch_of[pairs.second[:, 0]] == j)
                )
                some = Pairs(pairs.first[chosen], pairs.second[chosen])
                result[chosen] = measure(some, first, second)
    return distances
