"""L2Net: the convolutional trunk that turns a 32×32 patch into a vector."""

from typing import Any

import tensorflow as tf

from doap_tf.networks.trunk import Trunk, TrunkShape

L2NET_SHAPE = TrunkShape((32, 32, 64, 64, 128, 128), (1, 1, 2, 1, 2, 1))


@tf.keras.utils.register_keras_serializable("doap_tf")
class L2Net(Trunk):
    """Seven convolutions, each followed by batch normalisation; no bias, scale or shift.

    Args:
        output_dim: Length of the output vector.
        width: Multiplier of the number of filters of all but the last convolution; 1.0 is the
            paper's network with 1,334,560 kernel weights at 128 outputs.
        dropout: Dropout rate before the last convolution.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments and what it returns: see `Trunk`.

    Reference:
        Tian, Fan, Wu: L2-Net: Deep Learning of Discriminative Patch Descriptor in Euclidean
        Space. CVPR 2017.
    """

    def __init__(
        self,
        output_dim: int = 128,
        width: float = 1.0,
        dropout: float = 0.1,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        super().__init__(L2NET_SHAPE, output_dim, width, dropout, synchronized, **kwargs)
