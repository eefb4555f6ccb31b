"""L2Net: the convolutional trunk that turns a 32×32 patch into a vector."""

from typing import Any

import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock

_LAST_KERNEL = 8
_BLOCKS = ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1))  # (filters, stride)


def _width_of(filters: int, width: float) -> int:
    return max(1, round(filters * width))


@tf.keras.utils.register_keras_serializable("doap_tf")
class L2Net(tf.keras.Model):
    """Seven convolutions, each followed by batch normalisation; no bias, scale or shift.

    Args:
        output_dim: Length of the output vector.
        width: Multiplier of the number of filters of all but the last convolution; 1.0 is the
            paper's network with 1,334,560 kernel weights at 128 outputs.
        dropout: Dropout rate before the last convolution.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        patches: Standardised patches, [B, 32, 32, 1].
        training: Whether batch statistics and dropout are used.

    Returns:
        Vectors, [B, output_dim], not normalised to unit length.

    Reference:
        Tian, Fan, Wu: L2-Net: Deep Learning of Discriminative Patch Descriptor in Euclidean
        Space. CVPR 2017.
    """

    INPUT_SIZE = 32

    def __init__(
        self,
        output_dim: int = 128,
        width: float = 1.0,
        dropout: float = 0.1,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        if not (isinstance(output_dim, int) and output_dim >= 1):
            raise ValueError(f"output_dim must be a positive integer, not {output_dim!r}.")
        if not width > 0:
            raise ValueError(f"width must be above 0, not {width!r}.")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), not {dropout!r}.")
        super().__init__(**kwargs)
        self.output_dim = output_dim
        self.width = width
        self.dropout = dropout
        self.synchronized = synchronized
        self.blocks = [
            ConvolutionBlock(
                _width_of(filters, width),
                kernel_size=3,
                strides=strides,
                synchronized=synchronized,
                dtype=self.dtype_policy,
                name=f"block{number}",
            )
            for number, (filters, strides) in enumerate(_BLOCKS, start=1)
        ]
        self.drop = tf.keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.last = ConvolutionBlock(
            output_dim,
            kernel_size=_LAST_KERNEL,
            padding="valid",
            activation=None,
            synchronized=synchronized,
            dtype=self.dtype_policy,
            name=f"block{len(_BLOCKS) + 1}",
        )

    def build(self, input_shape: tuple) -> None:
        size = self.INPUT_SIZE
        if len(input_shape) != 4 or tuple(input_shape[1:]) != (size, size, 1):
            raise ValueError(
                f"patches must have the shape [B, {size}, {size}, 1], not {list(input_shape)}."
            )
        shape = tuple(input_shape)
        for block in [*self.blocks, self.last]:
            block.build(shape)
            shape = block.compute_output_shape(shape)
        self.drop.build(shape)
        self.built = True

    def call(self, patches: tf.Tensor, training: bool = False) -> tf.Tensor:
        activations = patches
        for block in self.blocks:
            activations = block(activations, training=training)
        activations = self.drop(activations, training=training)
        activations = self.last(activations, training=training)
        return tf.reshape(activations, [-1, self.output_dim])

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.output_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "width": self.width,
            "dropout": self.dropout,
            "synchronized": self.synchronized,
        }
