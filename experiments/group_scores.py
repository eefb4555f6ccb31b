"""Scores on patch groups that the experiments report: those of validation, and retrieval."""

from typing import Any

import numpy as np

_RETRIEVED = (0, 6, 7)  # the reference and two targets with hard jitter


def group_scores(descriptor: Any, validation: Any) -> dict[str, float]:
    """Returns the scores of validation, and the mAP of retrieval from groups of 8 or more."""
    from doap_tf import metrics

    scores = validation.evaluate(descriptor).scores
    groups = validation.groups
    if np.bincount(groups.group).min() <= max(_RETRIEVED):
        return scores
    rows = np.concatenate([groups.rows_of(g)[list(_RETRIEVED)] for g in range(groups.group_count)])
    described = descriptor.describe(groups.patches[rows])
    precisions = metrics.retrieval_average_precisions(
        described, groups.group[rows], descriptor.norm
    )
    return scores | {"retrieval_map": float(precisions.mean())}
