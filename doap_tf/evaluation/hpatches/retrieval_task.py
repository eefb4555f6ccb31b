"""HPatches' retrieval task: find a reference patch's targets among patches of other sequences."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tqdm

from doap_tf.errors import InputError
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, TARGETS
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.tasks import RetrievalTask
from doap_tf.metrics import average_precision_of_ranks, distance_matrix, paired_distances
from doap_tf.metrics.distances import blocks
from doap_tf.parallel import cores, parallel_map

POOLS = (100, 500, 1_000, 5_000, 10_000, 15_000, 20_000)


def evaluate_retrieval(
    descriptors: StripDescriptors, task: RetrievalTask, method: str, memory_mb: float
) -> dict[str, Any]:
    """Mean average precision by level and size of the pool."""
    if not len(task.queries) or len(set(task.distractors[:, 0].tolist())) < 2:
        raise InputError(
            f"retrieval needs queries, and distractors from two or more sequences; there are "
            f"{len(task.queries)} queries and {len(task.distractors)} distractors."
        )
    pools = [pool for pool in POOLS if pool <= len(task.distractors)]
    pools = pools or [len(task.distractors) + len(TARGETS)]
    positives = _positive_distances(descriptors, task.queries, memory_mb)
    precisions = np.empty((len(LEVELS), len(pools), len(task.queries)))
    database = _gather(descriptors, task.distractors)
    queries = _gather(descriptors, task.queries)
    # Per distance: float64 and float32 while it is made, then a comparison for each core.
    bytes_each = len(database) * (13 + cores())
    for sequence in tqdm.tqdm(np.unique(task.queries[:, 0]), "retrieval", disable=None):
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


def _gather(descriptors: StripDescriptors, patches: np.ndarray) -> np.ndarray:
    """Descriptors [N, ·] of the reference patches [N, 2]."""
    names = list(descriptors.sequences.lengths)
    rows: np.ndarray | None = None
    for sequence in np.unique(patches[:, 0]):
        members = patches[:, 0] == sequence
        found = descriptors.load(names[sequence], "ref")[patches[members, 1]]
        if rows is None:
            rows = np.empty((len(patches), found.shape[1]), found.dtype)
        rows[members] = found
    if rows is None:
        raise InputError("retrieval needs at least one patch.")
    return rows


def _positive_distances(
    descriptors: StripDescriptors, queries: np.ndarray, memory_mb: float
) -> np.ndarray:
    """Ascending distances [levels, Q, targets] of the queries to their own targets."""
    names = list(descriptors.sequences.lengths)
    result = np.empty((len(LEVELS), len(queries), len(TARGETS)), np.float32)
    for sequence in np.unique(queries[:, 0]):
        members = np.flatnonzero(queries[:, 0] == sequence)
        indices = queries[members, 1]
        reference = descriptors.load(names[sequence], "ref")[indices]
        for place, prefix in enumerate(LEVELS.values()):
            for column, target in enumerate(TARGETS):
                found = descriptors.load(names[sequence], f"{prefix}{target}")[indices]
                result[place, members, column] = paired_distances(
                    reference, found, descriptors.norm, memory_mb
                )
    return np.sort(result, axis=2)


def _pool_ends(foreign: np.ndarray, pools: Sequence[int]) -> list[int]:
    """Up to where in the list of distractors each pool reaches, own ones not counting."""
    places = np.flatnonzero(foreign)
    wanted = [pool - len(TARGETS) for pool in pools]
    return [
        int(places[count - 1]) + 1 if count <= len(places) else len(foreign) for count in wanted
    ]


def _nearer(distances: np.ndarray, positives: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    """How many distractors precede each positive: int [levels, pools, Q, targets].

    A list starts with its positives and its order is stable: an equally near distractor does not
    precede one.
    """
    levels, queries, targets = positives.shape
    counts = np.empty((levels, len(ends), queries, targets), np.int64)
    starts = [0, *ends[:-1]]

    def count(place: tuple[int, int]) -> None:
        level, target = place
        nearer = distances < positives[level, :, target, np.newaxis]
        for pool, (start, end) in enumerate(zip(starts, ends, strict=True)):
            counts[level, pool, :, target] = np.count_nonzero(nearer[:, start:end], axis=1)

    parallel_map(count, [(level, target) for level in range(levels) for target in range(targets)])
    return counts.cumsum(axis=1)
