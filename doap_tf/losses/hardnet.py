"""HardNet's loss, the baseline to beat."""

import tensorflow as tf

from doap_tf.losses.hardest_in_batch import HardestInBatchLoss
from doap_tf.losses.relations import IGNORED, POSITIVE


@tf.keras.utils.register_keras_serializable("doap_tf")
class HardNetLoss(HardestInBatchLoss):
    """`HardestInBatchLoss` with HardNet's own negatives.

    The first patch of each group in the list is its anchor, the others are its positives. The
    negatives of an anchor are the positives of other groups, those of a positive the other anchors;
    anchors are not compared with anchors, nor positives with positives. With two patches of each
    group this is the loss of the paper; larger groups average over the positives of an anchor.
    Arguments are as for `HardestInBatchLoss`.

    Reference:
        Mishchuk et al.: Working hard to know your neighbor's margins. NIPS 2017.
    """

    default_name = "hardnet_loss"

    def compared(self, related: tf.Tensor) -> tf.Tensor:
        rows = tf.range(tf.shape(related)[0])
        earlier = rows[:, tf.newaxis] > rows
        anchors = ~tf.reduce_any((related == POSITIVE) & earlier, axis=1)
        across = anchors[:, tf.newaxis] != anchors
        return tf.where(across, related, tf.constant(IGNORED, related.dtype))
