"""Nearest-neighbour matching of two sets of descriptors with known correspondence."""

import numpy as np

from doap_tf.errors import InputError
from doap_tf.metrics.average_precision import average_precision
from doap_tf.metrics.distances import nearest


def matching_average_precision(
    reference: np.ndarray,
    target: np.ndarray,
    norm: int,
    method: str = "trapezoid",
    memory_mb: float = 512,
) -> float:
    """Returns the average precision of nearest-neighbour matches; wrong ones cost recall.

    Args:
        reference: [N, D], or packed bits [N, bits / 8].
        target: The same shape; row i is the match of reference row i.
        norm: NORM_L2 or NORM_HAMMING.
        method: As for `average_precision`.
        memory_mb: Limit for temporary arrays.
    """
    distances, right, _ = match(reference, target, norm, memory_mb)
    return average_precision(distances, right, method, positives=len(right))


def match(
    reference: np.ndarray, target: np.ndarray, norm: int, memory_mb: float = 512
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds the nearest target row of each reference row.

    Returns:
        Distances float32 [N], whether the neighbour is the row of the same index bool [N], and
        the neighbours int64 [N].
    """
    if len(reference) != len(target) or len(reference) == 0:
        raise InputError(
            "matching needs two equally long, non-empty sets of descriptors, "
            f"not {len(reference)} and {len(target)}."
        )
    indices, distances = nearest(reference, target, norm, memory_mb=memory_mb)
    return distances[:, 0], indices[:, 0] == np.arange(len(reference)), indices[:, 0]
