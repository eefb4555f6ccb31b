"""Which patches of a list are positives, distractors or ignored for which query."""

import tensorflow as tf

POSITIVE = 1
IGNORED = 0
DISTRACTOR = -1

_NONE = -1  # the sequence number of patches that belong to no sequence


def relations(
    query_labels: tf.Tensor,
    database_labels: tf.Tensor | None = None,
    *,
    query_rows: tf.Tensor | None = None,
    far_apart: tf.Tensor | None = None,
) -> tf.Tensor:
    """Builds the matrix of relations from labels.

    Patches of the same group are positives, whatever else their labels say. Patches of other
    groups are distractors, unless they come from the same sequence: then repeated structure may
    look alike and they are ignored, except where label mining found their clusters to be far
    apart. A query is never related to itself.

    Args:
        query_labels: Whole numbers [Q], or [Q, C] with the columns group, sequence and cluster,
            of which the last ones may be missing. A sequence of −1 means none.
        database_labels: Likewise for the patches of the list, [N] or [N, C]. By default the
            queries themselves.
        query_rows: The row of the list that holds each query, [Q]; −1 for a query outside of the
            list. By default 0 … Q − 1.
        far_apart: Which clusters of a sequence are distractors for each other, bool [S, K, K].

    Returns:
        int8 [Q, N] of `POSITIVE`, `IGNORED` and `DISTRACTOR`.
    """
    query_labels = label_columns(query_labels, "query_labels")
    database_labels = (
        query_labels
        if database_labels is None
        else label_columns(database_labels, "database_labels")
    )
    columns = query_labels.shape[1]
    if database_labels.shape[1] != columns:
        raise ValueError(
            f"query_labels and database_labels must have the same columns, not {columns} and "
            f"{database_labels.shape[1]}."
        )
    same = query_labels[:, tf.newaxis] == database_labels[tf.newaxis]  # [Q, N, C]
    related = tf.where(same[..., 0], tf.constant(POSITIVE, tf.int8), DISTRACTOR)
    if columns >= 2:
        alike = same[..., 1] & (query_labels[:, 1:2] != _NONE)
        if far_apart is not None and columns == 3:
            alike &= ~_are_far_apart(query_labels, database_labels, far_apart)
        related = tf.where(alike & ~same[..., 0], tf.constant(IGNORED, tf.int8), related)
    if query_rows is None:
        query_rows = tf.range(tf.shape(query_labels)[0])
    itself = query_rows[:, tf.newaxis] == tf.range(tf.shape(database_labels)[0])
    return tf.where(itself, tf.constant(IGNORED, tf.int8), related)


def label_columns(labels: tf.Tensor, name: str) -> tf.Tensor:
    """Returns labels [M] or [M, C] as int32 [M, C]."""
    labels = tf.cast(labels, tf.int32)
    if labels.shape.rank == 1:
        labels = labels[:, tf.newaxis]
    if labels.shape.rank != 2 or labels.shape[1] not in (1, 2, 3):
        raise ValueError(
            f"{name} must have the shape [M], or [M, C] with 1 to 3 columns (group, sequence, "
            f"cluster), not {labels.shape}."
        )
    return labels


def _are_far_apart(
    query_labels: tf.Tensor, database_labels: tf.Tensor, far_apart: tf.Tensor
) -> tf.Tensor:
    """Looks pairs [Q, N] up in the table of the query's sequence; other entries are undefined."""
    far_apart = tf.convert_to_tensor(far_apart)
    if far_apart.shape.rank != 3 or far_apart.shape[1] != far_apart.shape[2]:
        raise ValueError(f"far_apart must have the shape [S, K, K], not {far_apart.shape}.")
    sequence = tf.clip_by_value(query_labels[:, 1], 0, far_apart.shape[0] - 1)
    rows = tf.gather_nd(far_apart, tf.stack([sequence, tf.maximum(query_labels[:, 2], 0)], axis=1))
    columns = tf.clip_by_value(database_labels[:, 2], 0, far_apart.shape[2] - 1)
    mined = (query_labels[:, 2:] >= 0) & (database_labels[:, 2] >= 0)
    return tf.gather(rows, columns, axis=1) & mined
