"""HPatches' verification task: tell matching pairs of patches from others by their distance."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tqdm

from doap_tf.evaluation.hpatches.patch_sequences import LEVELS
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.tasks import IMAGES, Pairs, VerificationTask
from doap_tf.evaluation.result import Curve, Plots
from doap_tf.metrics import (
    average_precision,
    paired_distances,
    precision_recall_curve,
    roc_auc,
    roc_curve,
)
from doap_tf.metrics.distances import blocks
from doap_tf.parallel import cores, parallel_map

_IMBALANCE = 0.2  # of the positives take part in the imbalanced protocol


def evaluate_verification(
    descriptors: StripDescriptors, task: VerificationTask, method: str, memory_mb: float
) -> tuple[dict[str, Any], Plots]:
    """Scores by level, origin of the negatives and protocol, with their curves."""
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
            # Negatives first, as in the benchmark, so that a tie counts against the descriptor.
            balanced = np.concatenate([others, positives])
            imbalanced = np.concatenate([others, few])
            scores[level][kind] = {
                "balanced_auc": roc_auc(balanced, np.arange(len(balanced)) >= len(others)),
                "imbalanced_ap": average_precision(
                    imbalanced, np.arange(len(imbalanced)) >= len(others), method
                ),
            }
            name = f"verification, {kind.replace('_', ' ')}, {level}"
            false, true = roc_curve(balanced, np.arange(len(balanced)) >= len(others))
            plots.roc[name] = Curve.thinned(false, true)
            precision, recall = precision_recall_curve(
                imbalanced, np.arange(len(imbalanced)) >= len(others)
            )
            plots.precision_recall[name] = Curve.thinned(recall, precision)
    for protocol in ("balanced_auc", "imbalanced_ap"):
        values = [scores[level][kind][protocol] for level in LEVELS for kind in kinds]
        scores[f"mean_{protocol}"] = float(np.mean(values))
    return scores, plots


def _distances(
    descriptors: StripDescriptors, prefix: str, lists: Sequence[Pairs], memory_mb: float
) -> list[np.ndarray]:
    """Distances [N] of the pairs of each list at one level.

    Descriptors are held for two batches of sequences at a time, however many there are; every
    pair belongs to one couple of batches.
    """
    names = list(descriptors.sequences.lengths)
    strips = ["ref", *(f"{prefix}{target}" for target in range(1, IMAGES))]
    lengths = np.array(list(descriptors.sequences.lengths.values()))
    sample = descriptors.load(names[0], "ref")
    row_bytes = sample.dtype.itemsize * sample.shape[1]
    batch_of = _batches(lengths * IMAGES * row_bytes, memory_mb * 2**20 / 8)
    ends = np.cumsum(lengths * IMAGES)
    distances = [np.empty(len(pairs.first), np.float32) for pairs in lists]

    def load(batch: int) -> tuple[np.ndarray, int]:
        """The descriptors of a batch, and how many come before it."""
        members = np.flatnonzero(batch_of == batch)
        start = ends[members[0]] - lengths[members[0]] * IMAGES
        loaded = np.empty((ends[members[-1]] - start, sample.shape[1]), sample.dtype)
        for number in members:
            places = slice(ends[number] - lengths[number] * IMAGES - start, ends[number] - start)
            views = loaded[places].reshape(IMAGES, lengths[number], -1)
            for view, strip in zip(views, strips, strict=True):
                view[:] = descriptors.load(names[number], strip)
        return loaded, start

    def rows(patches: np.ndarray) -> np.ndarray:
        sequences, images, indices = patches.T
        return ends[sequences] - lengths[sequences] * (IMAGES - images) + indices

    count = int(batch_of[-1]) + 1
    for i in tqdm.tqdm(range(count), f"verification ({prefix})", disable=None):
        first, first_start = load(i)
        for j in range(count):
            second, second_start = (first, first_start) if i == j else load(j)
            for pairs, result in zip(lists, distances, strict=True):
                chosen = np.flatnonzero(
                    (batch_of[pairs.first[:, 0]] == i) & (batch_of[pairs.second[:, 0]] == j)
                )
                result[chosen] = _gathered_distances(
                    (first, rows(pairs.first[chosen]) - first_start),
                    (second, rows(pairs.second[chosen]) - second_start),
                    descriptors.norm,
                    memory_mb / 8,
                )
    return distances


def _gathered_distances(
    first: tuple[np.ndarray, np.ndarray],
    second: tuple[np.ndarray, np.ndarray],
    norm: int,
    memory_mb: float,
) -> np.ndarray:
    """Distances [N] between rows of two arrays, each side given as an array and its rows [N]."""
    (left, left_rows), (right, right_rows) = first, second
    # Two gathered rows and their difference in float64, on every core.
    bytes_each = 6 * left.dtype.itemsize * left.shape[1] * cores()
    parts = parallel_map(
        lambda block: paired_distances(left[left_rows[block]], right[right_rows[block]], norm),
        blocks(len(left_rows), bytes_each, memory_mb),
    )
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def _batches(sizes: np.ndarray, limit: float) -> np.ndarray:
    """Numbers [N], ascending from 0, of batches that stay below `limit` or hold one thing."""
    numbers, number, filled = [], 0, 0
    for size in sizes.tolist():
        if filled and filled + size > limit:
            number, filled = number + 1, 0
        filled += size
        numbers.append(number)
    return np.array(numbers)
