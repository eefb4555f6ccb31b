"""The building block of all networks: convolution, batch normalisation, activation."""

from typing import Any

import tensorflow as tf


@tf.keras.utils.register_keras_serializable("doap_tf")
class ConvolutionBlock(tf.keras.layers.Layer):
    """Convolution without bias, batch normalisation without scale, activation.

    Args:
        filters: Number of output channels; None for a depthwise convolution, which has as many as
            its input and mixes none of them.
        kernel_size: Side of the square kernel.
        strides: Step of the kernel.
        padding: `"same"` or `"valid"`.
        activation: Name of a Keras activation, or None.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.
        shift: Whether normalisation is followed by a learned shift.

    Call arguments:
        inputs: [B, H, W, C].
        training: Whether statistics of the batch are used.
    """

    def __init__(
        self,
        filters: int | None,
        kernel_size: int = 3,
        strides: int = 1,
        padding: str = "same",
        activation: str | None = "relu",
        synchronized: bool = False,
        shift: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.kernel_size = kernel_size
        self.strides = strides
        self.padding = padding
        self.activation = activation
        self.synchronized = synchronized
        self.shift = shift
        options = {
            "strides": strides,
            "padding": padding,
            "use_bias": False,
            "dtype": self.dtype_policy,
            "name": "convolution",
        }
        if filters is None:
            # Keras' initialisers count all channels as inputs of each.
            normal = tf.keras.initializers.RandomNormal(stddev=2**0.5 / kernel_size)
            self.convolution = tf.keras.layers.DepthwiseConv2D(
                kernel_size, depthwise_initializer=normal, **options
            )
        else:
            self.convolution = tf.keras.layers.Conv2D(
                filters, kernel_size, kernel_initializer="he_normal", **options
            )
        # Keras' defaults (momentum 0.99, epsilon 1e-3) suit long runs and scaled activations; here
        # runs are short and there is no learned scale to make up for a large epsilon.
        self.normalization = tf.keras.layers.BatchNormalization(
            momentum=0.9,
            epsilon=1e-5,
            center=shift,
            scale=False,
            synchronized=synchronized,
            dtype=self.dtype_policy,
            name="normalization",
        )
        self.activate = tf.keras.layers.Activation(
            activation, dtype=self.dtype_policy, name="activation"
        )

    def build(self, input_shape: tuple) -> None:
        self.convolution.build(input_shape)
        self.normalization.build(self.convolution.compute_output_shape(input_shape))
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if training:
            return self.activate(self.normalization(self.convolution(inputs), training=True))
        kernel, bias = self.folded(inputs.dtype)
        if self._covers(inputs):
            # On CPUs convolutions take patches one by one, and read the whole kernel for each.
            rows = tf.reshape(inputs, [-1, self.kernel_size**2 * inputs.shape[3]])
            product = tf.matmul(rows, tf.reshape(kernel, [-1, self.filters]))
            outputs = tf.reshape(product, [-1, 1, 1, self.filters])
        elif self.filters is None:
            strides = [1, self.strides, self.strides, 1]
            outputs = tf.nn.depthwise_conv2d(inputs, kernel, strides, self.padding.upper())
        else:
            outputs = tf.nn.conv2d(inputs, kernel, self.strides, self.padding.upper())
        return self.activate(tf.nn.bias_add(outputs, bias))

    def folded(self, dtype: tf.DType) -> tuple[tf.Tensor, tf.Tensor]:
        """Kernel and bias that do what convolution and normalisation do one after the other.

        TensorFlow runs a convolution, its bias and its activation as one operation.
        """
        normalization = self.normalization
        scale = tf.math.rsqrt(normalization.moving_variance + normalization.epsilon)
        bias = -normalization.moving_mean * scale
        if self.shift:
            bias += normalization.beta
        # A depthwise kernel has its channels where others have their inputs.
        factors = scale[:, tf.newaxis] if self.filters is None else scale
        kernel = tf.cast(self.convolution.kernel, scale.dtype) * factors
        return tf.cast(kernel, dtype), tf.cast(bias, dtype)

    def _covers(self, inputs: tf.Tensor) -> bool:
        """Whether the kernel has only one place in its inputs."""
        whole = (self.kernel_size, self.kernel_size)
        return self.filters is not None and self.padding == "valid" and inputs.shape[1:3] == whole

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return self.convolution.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": self.filters,
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "activation": self.activation,
            "synchronized": self.synchronized,
            "shift": self.shift,
        }
