"""The base of all losses over lists: labels, relations, the mean over queries."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.losses.distances import DISTANCES
from doap_tf.losses.global_list import gather_list, scale_to_list
from doap_tf.losses.relations import POSITIVE, label_columns, relations

_HALF = 2**16
_NARROW = (tf.int32, tf.int16, tf.int8, tf.uint16, tf.uint8)


class ListLoss(tf.keras.losses.Loss, abc.ABC):
    """A loss in which every descriptor of the batch queries all the others.

    Under a strategy with several replicas the list is the global batch: descriptors and labels are
    gathered, each replica ranks the whole list for its own queries, and what Keras makes of the
    replicas' values equals the loss of one device on the joined batch.

    Args:
        distance: `"euclidean"`, `"squared"` or `"hamming"`.
        far_apart: Table of label mining, bool [sequences, K, K], see `relations`.
        from_relations: Whether `y_true` is a matrix of relations [M, M] instead of labels.

    Attributes:
        settings: Names of settings of a run that the constructor takes as well.

    Call arguments:
        y_true: Labels [M] or [M, C], whole numbers of 32 bits, or relations [M, M].
        y_pred: Descriptors [M, D].

    Returns:
        [M] values whose mean is the loss: the losses of the V queries that have a positive, times
        M / V, and 0 for the others.
    """

    settings: tuple[str, ...] = ()

    def __init__(
        self,
        distance: str = "euclidean",
        far_apart: Any = None,
        from_relations: bool = False,
        **kwargs: Any,
    ):
        check_choice("distance", distance, DISTANCES)
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

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> tf.Tensor:
        if not self.from_relations:
            y_true = _halves(y_true)  # which survive that Keras casts them to float32
        return super().__call__(y_true, y_pred, sample_weight)

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
        return self._from_labels(y_true if y_true.shape.rank == 3 else _halves(y_true), y_pred)

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
        return _mean_over(has_positive, values, has_positive)

    def _from_labels(self, halves: tf.Tensor, descriptors: tf.Tensor) -> tf.Tensor:
        (database, high, low), first = gather_list(descriptors, halves[..., 0], halves[..., 1])
        labels = tf.cast(high, tf.int32) * _HALF + tf.cast(low, tf.int32)
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
        return _mean_over(tf.gather(has_positive, own), values, has_positive)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "distance": self.distance,
            "far_apart": None if self.far_apart is None else self.far_apart.tolist(),
            "from_relations": self.from_relations,
        }


def _mean_over(counted: tf.Tensor, values: tf.Tensor, counted_in_list: tf.Tensor) -> tf.Tensor:
    """Scales losses [Q] for a mean over those queries of the list that have a positive."""
    count = tf.math.count_nonzero(counted_in_list, dtype=tf.int32)
    return scale_to_list(tf.where(counted, values, 0.0), count)


def _halves(labels: Any) -> tf.Tensor:
    """Splits labels [M] or [M, C] into their upper and lower 16 bits, float32 [M, C, 2]."""
    labels = tf.convert_to_tensor(labels)
    if labels.dtype not in _NARROW:
        exact = 2**24 if labels.dtype == tf.float32 else 2**31
        tf.debugging.assert_less(
            tf.abs(labels),
            tf.cast(exact, labels.dtype),
            f"labels of dtype {labels.dtype.name} must be below {exact}: number the groups anew, "
            "or pass int32.",
        )
    labels = label_columns(labels, "y_true")
    return tf.cast(tf.stack([labels // _HALF, labels % _HALF], axis=-1), tf.float32)


def _occurs_again(groups: tf.Tensor) -> tf.Tensor:
    """Whether each number [N] occurs more than once, without an [N, N] comparison."""
    order = tf.argsort(groups)
    ordered = tf.gather(groups, order)
    equal = ordered[1:] == ordered[:-1]
    again = tf.pad(equal, [[0, 1]]) | tf.pad(equal, [[1, 0]])
    return tf.gather(again, tf.argsort(order))
