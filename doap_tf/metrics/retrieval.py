"""Retrieval of the other patches of a group from a collection."""

import numpy as np

from doap_tf.errors import InputError
from doap_tf.metrics.average_precision import average_precision_of_ranks
from doap_tf.metrics.distances import blocks, distance_matrix
from doap_tf.parallel import parallel_map


def retrieval_average_precisions(
    descriptors: np.ndarray,
    groups: np.ndarray,
    norm: int,
    method: str = "trapezoid",
    memory_mb: float = 512,
    queries: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the average precision of every query; ties keep the order of the patches.

    Args:
        descriptors: [N, D], or packed bits [N, bits / 8].
        groups: int [N]; patches of one group match.
        norm: NORM_L2 or NORM_HAMMING.
        method: As for `average_precision`.
        memory_mb: Limit for temporary arrays.
        queries: int [Q], patches that query those that are not among them; by default every patch
            with a match queries all others.

    Returns:
        float64 [Q], one value per query, in the order of `queries` or of the patches; 0 without a
        match.
    """
    groups = np.asarray(groups)
    if groups.shape != (len(descriptors),):
        raise InputError(
            f"groups must have the shape [{len(descriptors)}], one number per descriptor, "
            f"not {list(groups.shape)}."
        )
    database = np.arange(len(groups))
    if queries is None:
        _, membership, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        queries = np.flatnonzero(sizes[membership] > 1)
    else:
        database = np.delete(database, queries)
    candidates = descriptors[database]
    result = np.empty(len(queries))
    for block in blocks(len(queries), 32 * len(groups), memory_mb):
        rows = queries[block]
        values = distance_matrix(descriptors[rows], candidates, norm)

        def precision(place: int, rows: np.ndarray = rows, values: np.ndarray = values) -> float:
            query = rows[place]
            order = database[np.argsort(values[place], kind="stable")]
            order = order[order != query]
            ranks = np.flatnonzero(groups[order] == groups[query]) + 1
            return float(average_precision_of_ranks(ranks, len(ranks), method))

        result[block] = parallel_map(precision, range(len(rows)))
    return result
