"""Losses of two lists of descriptors whose rows of the same number correspond."""

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.losses.average_precision import histogram_average_precision
from doap_tf.losses.global_list import gather_list
from doap_tf.losses.relations import DISTRACTOR, IGNORED, POSITIVE

CORRESPONDENCE_LOSSES = ("average_precision", "log_likelihood", "both")
_TEMPERATURE = 0.05
_LIKELIHOOD_SHARE = 0.1  # in "both"
_NEVER = -1e9


class CorrespondenceLoss:
    """Every row of one list is ranked against all rows of the other, and the other way round.

    Under a strategy with several replicas both lists are those of the global batch.

    Args:
        name: `"average_precision"`: one minus the AP of each list, with its one positive;
            `"log_likelihood"`: the negative logarithm of the positive's softmax over its list;
            `"both"`: the first and a tenth of the second.
        distance: `"euclidean"` or `"squared"` (its square) for unit vectors, `"hamming"` for a
            (relaxed) binary head.
        bins: Number of histogram bins of the Average Precision.

    Call arguments:
        first, second: Descriptors, float32 [M, D].
        valid: bool [M]; the other rows are neither queries nor in a list.

    Returns:
        A scalar: the mean over both directions and all valid rows; of several replicas this one's
        share, the sum of which is the loss.
    """

    def __init__(
        self, name: str = "average_precision", distance: str = "euclidean", bins: int = 25
    ):
        check_choice("loss", name, CORRESPONDENCE_LOSSES)
        self._name, self._distance, self._bins = name, distance, bins

    def __call__(self, first: tf.Tensor, second: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        weights = tf.cast(valid, first.dtype)
        (firsts, seconds, in_list), start = gather_list(first, second, weights[:, tf.newaxis])
        in_list = in_list[:, 0]
        values = self._row_losses(first, seconds, in_list > 0, start)
        values += self._row_losses(second, firsts, in_list > 0, start)
        return tf.reduce_sum(values * weights) / (2 * tf.maximum(tf.reduce_sum(in_list), 1))

    def _row_losses(
        self, queries: tf.Tensor, database: tf.Tensor, listed: tf.Tensor, start: tf.Tensor
    ) -> tf.Tensor:
        """Losses [Q] of queries whose positives follow one another from a row of the database."""
        if self._name == "average_precision":
            return self._imprecision(queries, database, listed, start)
        likelihood = self._log_likelihood(queries, database, listed, start)
        if self._name == "log_likelihood":
            return -likelihood
        imprecision = self._imprecision(queries, database, listed, start)
        return imprecision - _LIKELIHOOD_SHARE * likelihood

    def _imprecision(
        self, queries: tf.Tensor, database: tf.Tensor, listed: tf.Tensor, start: tf.Tensor
    ) -> tf.Tensor:
        columns = tf.range(tf.shape(database)[0])
        others = tf.where(listed, tf.constant(DISTRACTOR, tf.int8), tf.constant(IGNORED, tf.int8))

        def relations(rows: tf.Tensor) -> tf.Tensor:
            own = (rows + start)[:, tf.newaxis] == columns
            return tf.where(own, tf.constant(POSITIVE, tf.int8), others)

        return 1.0 - histogram_average_precision(
            queries, database, relations, distance=self._distance, bins=self._bins
        )

    def _log_likelihood(
        self, queries: tf.Tensor, database: tf.Tensor, listed: tf.Tensor, start: tf.Tensor
    ) -> tf.Tensor:
        scale = queries.shape[1] if self._distance == "hamming" else 1.0
        logits = tf.matmul(queries, database, transpose_b=True) / (_TEMPERATURE * scale)
        count = tf.shape(queries)[0]
        own = tf.reduce_sum(queries * database[start : start + count], 1) / (_TEMPERATURE * scale)
        return own - tf.reduce_logsumexp(tf.where(listed, logits, _NEVER), 1)
