"""The network that scores every pixel of an image as a keypoint."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock


@tf.keras.utils.register_keras_serializable("doap_tf")
class KeypointNetwork(tf.keras.Model):
    """3×3 convolutions on blocks of pixels, and a score for each pixel of a block.

    A block is folded into channels, so that no layer runs at full resolution: on a CPU that is
    several times as fast as as many operations on single pixels.

    Args:
        stride: Side of a block in pixels.
        filters: Number of output channels of each convolution.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        images: Grey values, [B, H, W, 1], with the contrast that `features.graph.contrast_map`
            gives; the sides are multiples of `stride`.
        training: Whether batch statistics are used.

    Returns:
        Logits, float32 [B, H, W, 1]: the larger, the better the keypoint.

    Attributes:
        radius: Of a keypoint's frame in pixels.
    """

    radius = 1.6

    def __init__(
        self,
        stride: int = 2,
        filters: Sequence[int] = (16, 16, 16, 16),
        synchronized: bool = False,
        **kwargs: Any,
    ):
        if not (isinstance(stride, int) and stride >= 1):
            raise ValueError(f"stride must be a positive integer, not {stride!r}.")
        if not filters or not all(isinstance(count, int) and count >= 1 for count in filters):
            raise ValueError(f"filters must be positive integers, not {filters!r}.")
        super().__init__(**kwargs)
        self.stride = stride
        self.filters = tuple(filters)
        self.synchronized = synchronized
        self.blocks = [
            ConvolutionBlock(
                count, synchronized=synchronized, dtype=self.dtype_policy, name=f"block{number}"
            )
            for number, count in enumerate(self.filters, 1)
        ]
        self.head = tf.keras.layers.Conv2D(stride**2, 1, dtype=self.dtype_policy, name="head")

    def build(self, input_shape: Any) -> None:
        """Builds all layers, whatever the size of the images."""
        channels = self.stride**2
        for block in [*self.blocks, self.head]:
            block.build((None, None, None, channels))
            channels = block.filters
        self.built = True

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        features = tf.cast(images, self.compute_dtype) / 64 - 2
        if self.stride > 1:
            features = tf.nn.space_to_depth(features, self.stride)
        for block in self.blocks:
            features = block(features, training=training)
        scores = tf.cast(self.head(features), tf.float32)
        return tf.nn.depth_to_space(scores, self.stride) if self.stride > 1 else scores

    @property
    def receptive_field(self) -> int:
        """Side of the square of pixels that determines a block's scores."""
        return self.stride * (2 * len(self.blocks) + 1)

    @classmethod
    def least_weights(cls, config: Mapping[str, Any]) -> int:
        """Returns a number of weights below that of a configuration: of 1×1 convolutions."""
        channels = [config["stride"] ** 2, *config["filters"], config["stride"] ** 2]
        return sum(before * after for before, after in itertools.pairwise(channels))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "stride": self.stride,
            "filters": list(self.filters),
            "synchronized": self.synchronized,
        }
