"""HPatches' retrieval task: reference patches query pools of targets and distractors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, TARGETS
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.tasks import RetrievalTask
from doap_tf.metrics import average_precision_of_ranks, distance_matrix, paired_distances
from doap_tf.metrics.distances import blocks
from doap_tf.parallel import cores, parallel_map
from doap_tf.progress import progress

POOLS = (100, 500, 1_000, 5_000, 10_000, 15_000, 20_000)


def evaluate_retrieval(
    descriptors: StripDescriptors, task: RetrievalTask, method: str, memory_mb: float
) -> dict[str, Any]:
    """Returns the mean average precision by level and size of the pool."""
    if not len(task.queries) or len(set(task.distractors[:, 0].tolist())) < 2:
        raise InputError(
            f"retrieval needs queries, and distractors from two or more sequences; there are "
            f"{len(task.queries)} queries and {len(task.distractors)} distractors."
        )
    pools = [pool for pool in POOLS if pool <= len(task.distractors)]
    pools = pools or [len(task.distractors) + len(TARGETS)]
    database = descriptors.gather(task.distractors, "ref")
    queries = descriptors.gather(task.queries, "ref")
    positives = np.empty((len(LEVELS), len(queries), len(TARGETS)), np.float32)
    for level, prefix in enumerate(LEVELS.values()):
        for column, target in enumerate(TARGETS):
            targets = descriptors.gather(task.queries, f"{prefix}{target}")
            positives[level, :, column] = paired_distances(
                queries, targets, descriptors.norm, memory_mb
            )
    positives.sort(axis=2)
    precisions = np.empty((len(LEVELS), len(pools), len(queries)))
    # Per distance: float64 and float32 while it is computed, then one comparison per core.
    bytes_each = len(database) * (13 + cores())
    for sequence in progress(np.unique(task.queries[:, 0]), "retrieval"):
        own = task.distractors[:, 0] == sequence
        ends = _pool_ends(~own, pools)
        members = np.flatnonzero(task.queries[:, 0] == sequence)
        for block in blocks(len(members), bytes_each, memory_mb / 2):
            rows = members[block]
            distances = distance_matrix(queries[rows], database, descriptors.norm)
            distances[:, own] = np.iinfo(np.uint16).max if distances.dtype == np.uint16 else np.inf
            nearer = _nearer(distances, positives[:, rows], ends)
            ranks = nearer + np.arange(1, len(TARGETS) + 1)
            precisions[:, :, rows] = average_precision_of_ranks(ranks, len(TARGETS), method)
    means = precisions.mean(axis=2)
    scores: dict[str, Any] = {
        level: dict(zip(map(str, pools), values.tolist(), strict=True))
        | {"mean": float(values.mean())}
        for level, values in zip(LEVELS, means, strict=True)
    }
    return scores | {"mean": float(means.mean())}


def _pool_ends(foreign: np.ndarray, pools: Sequence[int]) -> list[int]:
    """Returns where in the list of distractors each pool ends, its own sequence left out."""
    ends = np.append(np.flatnonzero(foreign) + 1, len(foreign))
    return [int(ends[min(pool - len(TARGETS), len(ends)) - 1]) for pool in pools]


def _nearer(distances: np.ndarray, positives: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    """Counts the distractors that precede each positive: int [levels, pools, Q, targets].

    Positives stand first in a list and the order is stable: a distractor at the same distance does
    not precede them.
    """
    levels, queries, targets = positives.shape
    counts = np.empty((levels, len(ends), queries, targets), np.int64)
    starts = [0, *ends[:-1]]

    def count(pair: tuple[int, int]) -> None:
        level, target = pair
        nearer = distances < positives[level, :, target, np.newaxis]
        for pool, (start, end) in enumerate(zip(starts, ends, strict=True)):
            counts[level, pool, :, target] = np.count_nonzero(nearer[:, start:end], axis=1)

    parallel_map(count, [(level, target) for level in range(levels) for target in range(targets)])
    return counts.cumsum(axis=1)
