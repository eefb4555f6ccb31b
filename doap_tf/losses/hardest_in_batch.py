"""A triplet loss with the hardest distractor of the whole batch."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from doap_tf.losses.distances import Distance
from doap_tf.losses.list_loss import ListLoss
from doap_tf.losses.relations import DISTRACTOR, POSITIVE


@tf.keras.utils.register_keras_serializable("doap_tf")
class HardestInBatchLoss(ListLoss):
    """max(0, margin + D(q, p) − min(nearest distractor of q, of p)), mean over positives p of q.

    The distractors are those of the whole list. HardNet takes fewer, see `HardNetLoss`. Distances
    are scaled to [0, 2], so that the margin means the same for all of them.

    Args:
        margin: By how much the nearest distractor must be farther away than a positive.
        distance: `"euclidean"` or `"squared"` (its square) for unit vectors, `"hamming"` for a
            (relaxed) binary head.
        far_apart: Table of label mining, bool [sequences, K, K], see `relations`.
        from_relations: Whether `y_true` is a (symmetric) matrix of relations instead of labels.

    Call arguments:
        y_true: Labels [M] or [M, C] with the columns group, sequence and cluster; or relations
            [M, M].
        y_pred: Descriptors [M, D].
    """

    settings = ("margin",)
    default_name = "hardest_in_batch_loss"

    def __init__(
        self,
        margin: float = 1.0,
        distance: str = "euclidean",
        far_apart: Any = None,
        from_relations: bool = False,
        name: str | None = None,
        **kwargs: Any,
    ):
        if not margin > 0:
            raise ValueError(f"margin must be above 0, not {margin!r}.")
        super().__init__(
            distance, far_apart, from_relations, name=name or self.default_name, **kwargs
        )
        self.margin = margin

    def query_losses(
        self,
        queries: tf.Tensor,
        database: tf.Tensor,
        relations: Callable[[tf.Tensor], tf.Tensor],
        first: tf.Tensor,
    ) -> tf.Tensor:
        database = tf.cast(database, tf.float32)
        distance = Distance(self.distance, database.shape[1])
        # All rows, not only the queries': the nearest distractor of a positive counts as well.
        distances = distance.of(tf.matmul(database, database, transpose_b=True))
        distances *= 2.0 / distance.largest
        related = self.compared(relations(tf.range(tf.shape(database)[0])))
        # Without a distractor there is nothing to push away, and the hinge must give zero.
        none = 2.0 + self.margin
        nearest = tf.reduce_min(tf.where(related == DISTRACTOR, distances, none), axis=1)
        nearest = tf.minimum(nearest[:, tf.newaxis], nearest[tf.newaxis])
        positive = tf.cast(related == POSITIVE, tf.float32)
        hinges = tf.nn.relu(self.margin + distances - nearest) * positive
        losses = tf.math.divide_no_nan(
            tf.reduce_sum(hinges, axis=1), tf.reduce_sum(positive, axis=1)
        )
        return tf.gather(losses, first + tf.range(tf.shape(queries)[0]))

    def compared(self, related: tf.Tensor) -> tf.Tensor:
        """Returns the relations [N, N] that count, of all of the list."""
        return related

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "margin": self.margin}
