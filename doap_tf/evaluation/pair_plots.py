"""Scores and pictures of a list of labelled pairs of patches."""

from collections.abc import Callable

import numpy as np

from doap_tf.evaluation.result import Curve, Plots, Strip
from doap_tf.metrics import precision_recall_curve, roc_curve

_EXAMPLES = 12


def pair_plots(
    name: str,
    distances: np.ndarray,
    matches: np.ndarray,
    read: Callable[[np.ndarray], np.ndarray],
) -> Plots:
    """Curves, distances and examples of a verification list.

    Args:
        name: What the plots call it.
        distances: [N].
        matches: bool [N].
        read: Gives the patches uint8 [n, 2, H, W] of the pairs with given places [n].
    """
    precision, recall = precision_recall_curve(distances, matches)
    false, true = roc_curve(distances, matches)
    order = np.argsort(distances, kind="stable")
    right, wrong = order[matches[order]], order[~matches[order]]
    examples = {
        "Nearest matches": right[:_EXAMPLES],
        "Farthest matches": right[::-1][:_EXAMPLES],
        "Nearest non-matches": wrong[:_EXAMPLES],
    }
    return Plots(
        precision_recall={name: Curve.thinned(recall, precision)},
        roc={name: Curve.thinned(false, true)},
        distances={name: (distances[matches], distances[~matches])},
        strips=[
            Strip(f"{title} ({name})", ("first", "second"), read(places).swapaxes(0, 1))
            for title, places in examples.items()
        ],
    )
