"""The base of all losses over lists: labels, relations, the global list, the scale."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf.losses.distances import check_distance
from doap_tf.losses.relations import POSITIVE, relations


class ListLoss(tf.keras.losses.Loss, abc.ABC):
    """A loss in which every descriptor of the batch queries all the others.

    Under a strategy with several replicas the list is the global batch: descriptors and labels are
    gathered, each replica ranks the whole list for its own queries, and what Keras makes of the
    replicas' values equals the loss of one device on the joined batch.

    Args:
        distance: `"euclidean"`, `"squared"` or `"hamming"`.
        far_apart: Table of label mining, bool [sequences, K, K], see `relations`.
        from_relations: Whether `y_true` is a matrix of relations [M, M] instead of labels.

    Call arguments:
        y_true: Labels [M] or [M, C], or relations [M, M].
        y_pred: Descriptors [M, D].

    Returns:
        [M] values whose mean is the loss: the losses of the V queries that have a positive, times
        M / V, and 0 for the others.
    """

    def __init__(
        self,
        distance: str = "euclidean",
        far_apart: Any = None,
        from_relations: bool = False,
        **kwargs: Any,
    ):
        check_distance(distance)
        super().__init__(**kwargs)
        self.distance = distance
        self.far_apart = None if far_apart is None else np.asarray(far_apart, bool)
        self.from_relations = from_relations

    @abc.abstractmethod
    def query_losses(
        self,
        queries: tf.Tensor,
        database: tf.Tensor,
        relations: Callable[[tf.Tensor], tf.Tensor],
        first: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the loss of each query, [Q]; any finite value for queries without positives.

        Args:
            queries: Descriptors [Q, D].
            database: Descriptors of the whole list [N, D].
            relations: Returns the rows [C, N] of the relations [N, N] of the list for row numbers
                [C].
            first: Row of the list that holds the first query; the others follow it.
        """

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        if y_pred.shape.rank != 2:
            raise ValueError(f"y_pred must have the shape [M, D], not {y_pred.shape}.")
        if not y_true.shape[:1].is_compatible_with(y_pred.shape[:1]):
            raise ValueError(
                f"y_true must have a row for each of the {y_pred.shape[0]} descriptors, "
                f"not the shape {y_true.shape}."
            )
        if self.from_relations:
            return self._from_relations(y_true, y_pred)
        return self._from_labels(y_true, y_pred)

    def _from_relations(self, matrix: tf.Tensor, descriptors: tf.Tensor) -> tf.Tensor:
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:
            raise ValueError("from_relations=True works on one replica only; pass labels instead.")
        if matrix.shape.rank != 2 or not matrix.shape[1:].is_compatible_with(descriptors.shape[:1]):
            raise ValueError(f"y_true must be a matrix [M, M] of relations, not {matrix.shape}.")
        matrix = tf.cast(matrix, tf.int8)
        values = self.query_losses(
            descriptors, descriptors, lambda rows: tf.gather(matrix, rows), tf.constant(0)
        )
        has_positive = tf.reduce_any(matrix == POSITIVE, axis=1)
        return _scaled(values, has_positive, has_positive)

    def _from_labels(self, labels: tf.Tensor, descriptors: tf.Tensor) -> tf.Tensor:
        labels = tf.cast(labels, tf.float32)
        if labels.shape.rank == 1:
            labels = labels[:, tf.newaxis]
        database, labels, first = global_list(descriptors, labels)
        values = self.query_losses(
            descriptors,
            database,
            lambda rows: relations(
                tf.gather(labels, rows), labels, query_rows=rows, far_apart=self.far_apart
            ),
            first,
        )
        has_positive = _occurs_again(labels[:, 0])
        own = tf.range(tf.shape(descriptors)[0]) + first
        return _scaled(values, tf.gather(has_positive, own), has_positive)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "distance": self.distance,
            "far_apart": None if self.far_apart is None else self.far_apart.tolist(),
            "from_relations": self.from_relations,
        }


def _scaled(values: tf.Tensor, counts: tf.Tensor, counts_in_list: tf.Tensor) -> tf.Tensor:
    # Keras divides by the rows of the replica and by the number of replicas; the loss is the mean
    # over the queries of the whole list that have a positive.
    rows = tf.size(values) * tf.distribute.get_strategy().num_replicas_in_sync
    total = tf.maximum(tf.math.count_nonzero(counts_in_list, dtype=tf.int32), 1)
    return tf.where(counts, values, 0.0) * tf.cast(rows / total, values.dtype)


def _occurs_again(groups: tf.Tensor) -> tf.Tensor:
    """Whether each number [N] occurs more than once, without an [N, N] comparison."""
    order = tf.argsort(groups)
    ordered = tf.gather(groups, order)
    equal = ordered[1:] == ordered[:-1]
    again = tf.pad(equal, [[0, 1]]) | tf.pad(equal, [[1, 0]])
    return tf.gather(again, tf.argsort(order))


def global_list(
    descriptors: tf.Tensor, labels: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gathers descriptors and labels of all replicas; returns this replica's first row as well."""
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return descriptors, labels, tf.constant(0)
    dimension = descriptors.shape[1]
    own = tf.cast(replica.replica_id_in_sync_group, tf.float32)
    # One tensor, because two gathers have no order among themselves and replicas can deadlock.
    packed = tf.concat(
        [tf.cast(descriptors, tf.float32), labels, tf.fill([tf.shape(labels)[0], 1], own)], axis=1
    )
    gathered = tf.ensure_shape(replica.all_gather(packed, axis=0), [None, packed.shape[1]])
    # The last batch of an epoch may be split unevenly, so the rows before ours are counted.
    first = tf.math.count_nonzero(gathered[:, -1] < own, dtype=tf.int32)
    return gathered[:, :dimension], gathered[:, dimension:-1], first
