"""Losses over ranked lists of descriptors."""

from doap_tf.losses.average_precision import (
    FORMS,
    AveragePrecisionLoss,
    histogram_average_precision,
)
from doap_tf.losses.correspondence_loss import CORRESPONDENCE_LOSSES, CorrespondenceLoss
from doap_tf.losses.distillation import DistillationLoss
from doap_tf.losses.hardest_in_batch import HardestInBatchLoss
from doap_tf.losses.hardnet import HardNetLoss
from doap_tf.losses.list_loss import ListLoss
from doap_tf.losses.relations import DISTRACTOR, IGNORED, POSITIVE, relations

# The losses of runs by name. They are made with `distance`, `far_apart` and the settings of the run
# that their attribute `settings` names.
LOSSES: dict[str, type[ListLoss]] = {
    "average_precision": AveragePrecisionLoss,
    "hardest_in_batch": HardestInBatchLoss,
    "hardnet": HardNetLoss,
}

__all__ = [
    "CORRESPONDENCE_LOSSES",
    "DISTRACTOR",
    "FORMS",
    "IGNORED",
    "LOSSES",
    "POSITIVE",
    "AveragePrecisionLoss",
    "CorrespondenceLoss",
    "DistillationLoss",
    "HardNetLoss",
    "HardestInBatchLoss",
    "ListLoss",
    "histogram_average_precision",
    "relations",
]
