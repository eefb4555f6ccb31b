"""HPatches' verification task: tell matching pairs of patches from others by distance."""

from typing import Any

import numpy as np

from doap_tf.drawing.plots import Curve
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.tasks import Pairs, VerificationTask
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
    for level, prefix in progress(LEVELS.items(), "verification"):
        positives, *negatives = (
            _distances(descriptors, prefix, pairs, memory_mb)
            for pairs in (task.positives, *kinds.values())
        )
        few = positives[: int(len(positives) * _IMBALANCE)]
        scores[level] = {}
        for kind, others in zip(kinds, negatives, strict=True):
            balanced, imbalanced = _labelled(others, positives), _labelled(others, few)
            scores[level][kind] = {
                "balanced_auc": roc_auc(*balanced),
                "imbalanced_ap": average_precision(*imbalanced, method),
            }
            name = f"verification, {kind.replace('_', ' ')}, {level}"
            plots.roc[name] = Curve.thinned(*roc_curve(*balanced))
            precision, recall = precision_recall_curve(*imbalanced)
            plots.precision_recall[name] = Curve.thinned(recall, precision)
    for protocol in ("balanced_auc", "imbalanced_ap"):
        values = [scores[level][kind][protocol] for level in LEVELS for kind in kinds]
        scores[f"mean_{protocol}"] = float(np.mean(values))
    return scores, plots


def _labelled(negatives: np.ndarray, positives: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns distances and labels with the negatives first: ties count against the descriptor."""
    distances = np.concatenate([negatives, positives])
    return distances, np.arange(len(distances)) >= len(negatives)


def _distances(
    descriptors: StripDescriptors, prefix: str, pairs: Pairs, memory_mb: float
) -> np.ndarray:
    """Returns the distances float32 [N] of pairs at one level."""
    order = np.argsort(pairs.first[:, 0], kind="stable")  # pairs of a block share strips
    distances = np.empty(len(order), np.float32)

    def fill(block: slice) -> None:
        chosen = order[block]
        first, second = (descriptors.gather(s[chosen], prefix) for s in (pairs.first, pairs.second))
        distances[chosen] = paired_distances(first, second, descriptors.norm)

    # Two gathered rows and their difference in float64, on each core.
    bytes_each = 6 * descriptors.gather(pairs.first[:1], prefix).nbytes * cores()
    parallel_map(fill, blocks(len(order), bytes_each, memory_mb / 4))
    return distances
