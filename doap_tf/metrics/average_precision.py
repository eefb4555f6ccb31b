"""Exact average precision of ranked lists, and precision-recall curves, in NumPy.

The differentiable counterpart is `doap_tf.losses.average_precision`.
"""

import numpy as np

from doap_tf.errors import check_choice

METHODS = ("trapezoid", "mean_precision")


def average_precision(
    distances: np.ndarray,
    relevant: np.ndarray,
    method: str = "trapezoid",
    positives: int | None = None,
) -> float:
    """Returns the average precision of a list ranked by ascending distance; ties keep their order.

    Args:
        distances: [N].
        relevant: bool [N], which entries are positives.
        method: `trapezoid`, the area under the linearly interpolated precision-recall curve from
            (0, 1) on, as in the Python HPatches benchmark; or `mean_precision`, the mean of the
            precision at the positives, as in its MATLAB version and in scikit-learn.
        positives: Number of positives to find if some are missing from the list, which costs
            recall; by default the number in the list.

    Returns:
        A value in [0, 1]; 0 without positives.
    """
    ranked, positives = _ranked(distances, relevant, positives)
    ranks = np.flatnonzero(ranked) + 1
    return float(average_precision_of_ranks(ranks, positives, method))


def average_precision_of_ranks(
    ranks: np.ndarray, positives: int, method: str = "trapezoid"
) -> np.ndarray:
    """Returns the average precision of many lists at once, by the ranks of their positives.

    Args:
        ranks: int [..., P], ranks of the positives, ascending, counted from 1.
        positives: Number of positives to find in each list, P or more.
        method: As for `average_precision`.

    Returns:
        float64 [...].
    """
    check_choice("method", method, METHODS)
    if positives == 0:
        return np.zeros(ranks.shape[:-1])
    found = np.arange(1, ranks.shape[-1] + 1)
    precision = found / ranks
    if method == "trapezoid":
        # Recall rises only at positives: each adds a trapezoid between the precision at its rank
        # and at the rank before, which is 1 before the first.
        before = np.where(ranks > 1, (found - 1) / np.maximum(ranks - 1, 1), 1.0)
        precision = (precision + before) / 2
    return precision.sum(axis=-1) / positives


def precision_recall_curve(
    distances: np.ndarray, relevant: np.ndarray, positives: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns precision and recall, float64: (1, 0), then one point per distinct distance."""
    ranked, positives = _ranked(distances, relevant, positives)
    ends = distinct_ends(np.sort(distances))
    found = np.cumsum(ranked)[ends]
    return np.append(1.0, found / (ends + 1)), np.append(0.0, found / max(positives, 1))


def distinct_ends(ascending: np.ndarray) -> np.ndarray:
    """Returns the last index of each distinct value of an ascending list [N]."""
    return np.flatnonzero(np.append(ascending[1:] != ascending[:-1], True)[: len(ascending)])


def _ranked(
    distances: np.ndarray, relevant: np.ndarray, positives: int | None
) -> tuple[np.ndarray, int]:
    """Returns the labels in ranked order, and the number of positives to find."""
    distances, relevant = checked_list(distances, relevant)
    in_list = int(relevant.sum())
    if positives is None:
        positives = in_list
    if positives < in_list:
        raise ValueError(f"positives must be at least the {in_list} in the list, not {positives}.")
    return relevant[np.argsort(distances, kind="stable")], positives


def checked_list(distances: np.ndarray, relevant: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns distances [N] and their labels as bool [N], or raises a ValueError."""
    distances, relevant = np.asarray(distances), np.asarray(relevant, bool)
    if distances.ndim != 1 or distances.shape != relevant.shape:
        raise ValueError(
            "distances and labels must be lists of equal length, not of the shapes "
            f"{list(distances.shape)} and {list(relevant.shape)}."
        )
    if np.isnan(distances).any():
        raise ValueError(
            f"distances must not be NaN; entry {int(np.isnan(distances).argmax())} is."
        )
    return distances, relevant
