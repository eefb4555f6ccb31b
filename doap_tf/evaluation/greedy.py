"""Greedy one-to-one assignment: the closest pair first, then the closest of the rest."""

import heapq

import numpy as np

from doap_tf.metrics import nearest

_CANDIDATES = 8


def greedy_matches(
    first: np.ndarray, second: np.ndarray, norm: int, memory_mb: float = 512
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Matches descriptors one to one by ascending distance, ties by ascending rows.

    Each row keeps a few candidates; once a row has lost all of its own, the unmatched rows search
    again among the free ones. The matrix of all distances is never in memory.

    Args:
        first: [N, D], or packed bits [N, bits / 8].
        second: [M, D], or packed bits [M, bits / 8].
        norm: NORM_L2 or NORM_HAMMING.
        memory_mb: Limit for temporary arrays.

    Returns:
        Rows of `first`, rows of `second` and distances, each [min(N, M)], in ascending distance.
    """
    free, waiting = np.ones(len(second), bool), np.ones(len(first), bool)
    matches: list[tuple[int, int, float]] = []
    while free.any() and waiting.any():
        matches += _matched_by_candidates(first, second, norm, memory_mb, free, waiting)
    rows, columns, distances = np.array(matches, np.float64).reshape(-1, 3).T
    return rows.astype(int), columns.astype(int), distances.astype(np.float32)


def _matched_by_candidates(
    first: np.ndarray,
    second: np.ndarray,
    norm: int,
    memory_mb: float,
    free: np.ndarray,
    waiting: np.ndarray,
) -> list[tuple[int, int, float]]:
    """Returns the next matches, at least one, and updates the masks."""
    rows, columns_left = np.flatnonzero(waiting), np.flatnonzero(free)
    columns, values = nearest(
        first[rows], second[columns_left], norm, min(_CANDIDATES, len(columns_left)), memory_mb
    )
    columns = columns_left[columns]
    heap = [
        (value, row, column, number, 0)
        for number, (value, row, column) in enumerate(
            zip(values[:, 0].tolist(), rows.tolist(), columns[:, 0].tolist(), strict=True)
        )
    ]
    heapq.heapify(heap)
    matches = []
    while heap:
        value, row, column, number, rank = heapq.heappop(heap)
        if free[column]:
            free[column] = waiting[row] = False
            matches.append((row, column, value))
        elif rank + 1 == columns.shape[1]:
            break
        else:
            rank += 1
            entry = (float(values[number, rank]), row, int(columns[number, rank]), number, rank)
            heapq.heappush(heap, entry)
    return matches


def greedy_count(rows: np.ndarray, columns: np.ndarray, costs: np.ndarray) -> int:
    """Returns how many of the given pairs a greedy one-to-one choice by ascending cost takes."""
    taken_rows, taken_columns = set(), set()
    for index in np.argsort(costs, kind="stable"):
        row, column = int(rows[index]), int(columns[index])
        if row not in taken_rows and column not in taken_columns:
            taken_rows.add(row)
            taken_columns.add(column)
    return len(taken_rows)
