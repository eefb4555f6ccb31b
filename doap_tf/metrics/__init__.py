"""Exact metrics of descriptors and distances between them, in NumPy.

The differentiable counterparts for training are in `doap_tf.losses`.
"""

from doap_tf.metrics.average_precision import (
    average_precision,
    average_precision_of_ranks,
    precision_recall_curve,
)
from doap_tf.metrics.distances import (
    NORM_HAMMING,
    NORM_L2,
    distance_matrix,
    nearest,
    nearest_both_ways,
    paired_distances,
)
from doap_tf.metrics.nearest_neighbours import match, matching_average_precision
from doap_tf.metrics.retrieval import retrieval_average_precisions
from doap_tf.metrics.verification import false_positive_rate, roc_auc, roc_curve

__all__ = [
    "NORM_HAMMING",
    "NORM_L2",
    "average_precision",
    "average_precision_of_ranks",
    "distance_matrix",
    "false_positive_rate",
    "match",
    "matching_average_precision",
    "nearest",
    "nearest_both_ways",
    "paired_distances",
    "precision_recall_curve",
    "retrieval_average_precisions",
    "roc_auc",
    "roc_curve",
]
