"""What all trunks share: a chain of convolutions, the last of which covers its whole input."""

from typing import Any, NamedTuple

import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock

_INPUT_SIZE = 32


class TrunkShape(NamedTuple):
    """The convolutions before the last one.

    Attributes:
        filters: Output channels of each.
        strides: Step of each.
        first_kernel: Side of the first kernel; that of the others is 3.
        separable: Whether each after the first is split into a depthwise convolution and one of
            1×1.
        shift: Whether each is followed by a learned shift, which costs nothing in use.
    """

    filters: tuple[int, ...]
    strides: tuple[int, ...]
    first_kernel: int = 3
    separable: bool = False
    shift: bool = False

    @property
    def last_side(self) -> int:
        """Side of what is left of a patch, and of the last kernel."""
        side = _INPUT_SIZE
        for stride in self.strides:
            side = -(-side // stride)
        return side

    @property
    def last_inputs(self) -> int:
        """Number of values that the last kernel has for each output."""
        return self.last_side**2 * self.filters[-1]


class Trunk(tf.keras.Model):
    """Convolutions, each followed by batch normalisation without a learned scale.

    Args:
        shape: The convolutions before the last.
        output_dim: Length of the output vector.
        width: Multiplier of the number of filters of all but the last convolution.
        dropout: Dropout rate before the last convolution.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        patches: Standardised patches, [B, 32, 32, 1].
        training: Whether batch statistics and dropout are used.

    Returns:
        Vectors, [B, output_dim], not normalised to unit length.
    """

    INPUT_SIZE = _INPUT_SIZE

    def __init__(
        self,
        shape: TrunkShape,
        output_dim: int,
        width: float,
        dropout: float,
        synchronized: bool,
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
        options = {"synchronized": synchronized, "dtype": self.dtype_policy}
        shifted = {**options, "shift": shape.shift}
        self.blocks: list[ConvolutionBlock] = []
        for number, (filters, strides) in enumerate(zip(*shape[:2], strict=True), start=1):
            name, kernel_size = f"block{number}", 3 if number > 1 else shape.first_kernel
            if shape.separable and number > 1:
                depthwise = f"{name}_depthwise"
                self.blocks.append(
                    ConvolutionBlock(None, kernel_size, strides, name=depthwise, **shifted)
                )
                kernel_size = strides = 1
            filters = max(1, round(filters * width))
            self.blocks.append(
                ConvolutionBlock(filters, kernel_size, strides, name=name, **shifted)
            )
        self.drop = tf.keras.layers.Dropout(dropout, dtype=self.dtype_policy, name="dropout")
        self.last = ConvolutionBlock(
            output_dim,
            kernel_size=shape.last_side,
            padding="valid",
            activation=None,
            name=f"block{len(shape.filters) + 1}",
            **options,
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
