"""Verification of pairs by their distance: FPR95, the ROC curve and its area."""

import math

import numpy as np

from doap_tf.errors import check_choice
from doap_tf.metrics.average_precision import checked_list, distinct_ends

TIES = ("half", "in_order")


def false_positive_rate(distances: np.ndarray, matches: np.ndarray, recall: float = 0.95) -> float:
    """Returns the false positive rate at a recall: FPR95 by default.

    All pairs up to the smallest distance are accepted at which `recall` of the matches are. Ties
    are accepted together, so that the order of the pairs does not matter.

    Args:
        distances: [N].
        matches: bool [N], which pairs match; some must and some must not.
        recall: In (0, 1].
    """
    distances, matches = _checked_pairs(distances, matches)
    if not 0 < recall <= 1:
        raise ValueError(f"recall must lie in (0, 1], not {recall}.")
    of_matches = np.sort(distances[matches])
    # A rounding error in the product must not cost a match.
    threshold = of_matches[math.ceil(recall * len(of_matches) - 1e-9) - 1]
    return float((distances[~matches] <= threshold).mean())


def roc_auc(distances: np.ndarray, matches: np.ndarray, ties: str = "half") -> float:
    """Returns the area under the ROC curve.

    Args:
        distances: [N].
        matches: bool [N], which pairs match; some must and some must not.
        ties: How equal distances count: `half`, as in scikit-learn, whatever their order; or
            `in_order`, the earlier one as the nearer, as in HPatches' Python code.
    """
    distances, matches = _checked_pairs(distances, matches)
    check_choice("ties", ties, TIES)
    if ties == "in_order":
        ranked = matches[np.argsort(distances, kind="stable")]
        return float(1 - np.cumsum(~ranked)[ranked].mean() / np.count_nonzero(~ranked))
    others = np.sort(distances[~matches])
    nearer = np.searchsorted(others, distances[matches], side="left")
    not_farther = np.searchsorted(others, distances[matches], side="right")
    return float(1 - (nearer.mean() + not_farther.mean()) / (2 * len(others)))


def roc_curve(distances: np.ndarray, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns false and true positive rates, float64: (0, 0), then one per distinct distance."""
    distances, matches = _checked_pairs(distances, matches)
    order = np.argsort(distances, kind="stable")
    distances, matches = distances[order], matches[order]
    ends = distinct_ends(distances)
    true, false = np.cumsum(matches)[ends], np.cumsum(~matches)[ends]
    return np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1])


def _checked_pairs(distances: np.ndarray, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    distances, matches = checked_list(distances, matches)
    if matches.all() or not matches.any():
        raise ValueError(
            "verification needs matching and other pairs, "
            f"not {int(matches.sum())} and {int((~matches).sum())}."
        )
    return distances, matches
