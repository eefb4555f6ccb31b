"""The list of all replicas: gathering its rows, and the scale of its loss."""

import tensorflow as tf


def gather_list(*columns: tf.Tensor) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gathers the rows of all replicas.

    Args:
        *columns: Tensors with as many rows each, [Q, C]; with several replicas they become float32.

    Returns:
        The tensors of the list, [N, C] each, and the row of the list that holds this replica's
        first one.
    """
    replica = tf.distribute.get_replica_context()
    if replica is None or replica.num_replicas_in_sync == 1:
        return list(columns), tf.constant(0)
    number = tf.cast(replica.replica_id_in_sync_group, tf.float32)
    own = [tf.cast(tensor, tf.float32) for tensor in columns]
    # One tensor, because two gathers have no order among themselves and replicas can deadlock.
    packed = tf.concat([*own, tf.fill([tf.shape(own[0])[0], 1], number)], axis=1)
    gathered = tf.ensure_shape(replica.all_gather(packed, axis=0), [None, packed.shape[1]])
    *columns_of_list, numbers = tf.split(gathered, [*(t.shape[1] for t in own), 1], axis=1)
    # The last batch of an epoch may be split unevenly, so the rows before ours are counted.
    return columns_of_list, tf.math.count_nonzero(numbers < number, dtype=tf.int32)


def scale_to_list(values: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Scales this replica's losses [Q] so that what Keras makes of all replicas' is sum / count.

    Keras divides by the rows of the replica and by the number of replicas.
    """
    rows = tf.size(values) * tf.distribute.get_strategy().num_replicas_in_sync
    return values * tf.cast(rows / tf.maximum(count, 1), values.dtype)
