"""The spatial transformer: predicts an affine map for each patch and resamples the patch."""

from typing import Any

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.networks.convolution import ConvolutionBlock

PADDINGS = ("replicate", "symmetric", "zeros")
_IDENTITY = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
_FILTERS = (32, 64, 64)


def affine_sample(
    images: tf.Tensor, transforms: tf.Tensor, output_size: int, padding: str = "replicate"
) -> tf.Tensor:
    """Resamples square images bilinearly by affine maps.

    Computed as products with tent weights instead of gathers: differentiable without a custom
    gradient, border included; compiles under XLA and converts for mobile GPUs.

    Args:
        images: [B, N, N, 1].
        transforms: [B, 2, 3], from output to input coordinates; both run over [−1, 1] between the
            outer edges of the border pixels, x right and y down.
        output_size: Side S of the output.
        padding: What is read outside the image: `"replicate"` repeats the border pixels,
            `"symmetric"` mirrors the image with the border pixels repeated, `"zeros"`.

    Returns:
        [B, S, S, 1], of the images' dtype.
    """
    check_choice("padding", padding, PADDINGS)
    size = images.shape[1]
    if images.shape.rank != 4 or size is None or size != images.shape[2] or images.shape[3] != 1:
        raise ValueError(f"images must have the shape [B, N, N, 1], not {images.shape.as_list()}.")
    dtype = images.dtype
    centers = (tf.range(output_size, dtype=dtype) + 0.5) * (2.0 / output_size) - 1.0
    x, y = tf.meshgrid(centers, centers)
    grid = tf.reshape(tf.stack([x, y, tf.ones_like(x)]), [3, output_size * output_size])
    source = (tf.matmul(tf.cast(transforms, dtype), grid) + 1.0) * (size / 2.0) - 0.5  # [B, 2, S²]
    if padding == "symmetric":
        # Folding at −½ and N − ½ with period 2N keeps the border pixel doubled.
        phase = source + 0.5
        phase -= 2.0 * size * tf.floor(phase / (2.0 * size))
        source = size - tf.abs(phase - size) - 0.5
    if padding != "zeros":
        source = tf.clip_by_value(source, 0.0, size - 1.0)
    pixels = tf.range(size, dtype=dtype)[:, tf.newaxis]
    # Slices of coordinates, not of weights, and no slice of images: LiteRT is slow at large ones.
    along_x, along_y = (
        tf.nn.relu(1.0 - tf.abs(source[:, axis, tf.newaxis] - pixels)) for axis in (0, 1)
    )  # [B, N, S²]
    columns = tf.matmul(tf.reshape(images, [-1, size, size]), along_x)  # [B, N, S²]
    samples = tf.reduce_sum(columns * along_y, axis=1)
    return tf.reshape(samples, [-1, output_size, output_size, 1])


@tf.keras.utils.register_keras_serializable("doap_tf")
class SpatialTransformer(tf.keras.layers.Layer):
    """Aligns patches with an affine map of six degrees of freedom, initially the identity.

    Three convolutions and a dense layer predict the map. Maps and sampling are computed in float32
    whatever the policy is.

    Args:
        output_size: Side of the aligned patches.
        padding: What is read outside a patch, see `affine_sample`.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        patches: [B, N, N, 1].
        training: Whether statistics of the batch are used.
        return_transform: Whether to return the maps as well.

    Returns:
        Aligned patches [B, output_size, output_size, 1]; with `return_transform` also the maps
        [B, 2, 3] from output to input coordinates.

    Reference:
        Jaderberg et al.: Spatial Transformer Networks. NIPS 2015.
    """

    def __init__(
        self,
        output_size: int = 32,
        padding: str = "replicate",
        synchronized: bool = False,
        **kwargs: Any,
    ):
        check_choice("padding", padding, PADDINGS)
        super().__init__(**kwargs)
        self.output_size = output_size
        self.padding = padding
        self.synchronized = synchronized
        self.blocks = [
            ConvolutionBlock(
                filters,
                strides=2,
                synchronized=synchronized,
                dtype=self.dtype_policy,
                name=f"block{number}",
            )
            for number, filters in enumerate(_FILTERS, start=1)
        ]
        self.flatten = tf.keras.layers.Flatten(dtype=self.dtype_policy, name="flatten")
        self.prediction = tf.keras.layers.Dense(
            len(_IDENTITY),
            kernel_initializer="zeros",
            bias_initializer=_identity_bias,
            dtype="float32",
            name="prediction",
        )

    def build(self, input_shape: tuple) -> None:
        shape = tuple(input_shape)
        for block in self.blocks:
            block.build(shape)
            shape = block.compute_output_shape(shape)
        self.flatten.build(shape)
        self.prediction.build(self.flatten.compute_output_shape(shape))
        self.built = True

    def call(
        self, patches: tf.Tensor, training: bool = False, return_transform: bool = False
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        activations = patches
        for block in self.blocks:
            activations = block(activations, training=training)
        transforms = tf.reshape(self.prediction(self.flatten(activations)), [-1, 2, 3])
        aligned = affine_sample(
            tf.cast(patches, tf.float32), transforms, self.output_size, self.padding
        )
        return (aligned, transforms) if return_transform else aligned

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.output_size, self.output_size, 1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_size": self.output_size,
            "padding": self.padding,
            "synchronized": self.synchronized,
        }


def _identity_bias(shape: tuple, dtype: Any = None) -> tf.Tensor:
    return tf.reshape(tf.constant(_IDENTITY, dtype or tf.float32), shape)
