"""The network that reads a whole image, scores every pixel and describes any point."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.networks.convolution import ConvolutionBlock
from doap_tf.networks.descriptor_network import HEADS

_TRUNKS: dict[str, dict[str, Any]] = {
    "": {
        "filters": ((16, 32), (64, 64), (96, 96, 96), (128, 128, 128), (128, 128, 128)),
    },
    "-mid": {
        "filters": ((8, 16), (32, 32), (64, 64, 64), (128, 128, 128), (128, 128, 128)),
    },
    "-small": {
        "filters": ((8, 8), (24, 24), (48, 48, 48), (96, 96), (96, 96)),
        "score_filters": 8,
    },
}
#: Settings by name: three sizes, 128 floats or 256 bits each.
DENSE_PRESETS: dict[str, dict[str, Any]] = {
    f"dense{size}-{length}": {**trunk, "output_dim": output_dim, "head": head}
    for size, trunk in _TRUNKS.items()
    for length, output_dim, head in (("128", 128, "real"), ("256b", 256, "binary"))
}


class DenseMaps(NamedTuple):
    """What `DenseNetwork` makes of images [B, H, W, 1].

    Attributes:
        scores: Logits, float32 [B, H, W, 1]: the larger, the better the keypoint.
        features: Four maps [B, H / s, W / s, C], s = 4, 8, 16 and 32, which
            `DenseNetwork.describe` turns into descriptors.
    """

    scores: tf.Tensor
    features: tuple[tf.Tensor, ...]


@tf.keras.utils.register_keras_serializable("doap_tf")
class DenseNetwork(tf.keras.Model):
    """One trunk, a score for every pixel, and features from which any point is described.

    3×3 convolutions go down from half the resolution to a 32nd. The maps of the four coarser levels
    are sampled at keypoints, and two layers make descriptors of the values side by side: at
    keypoints alone, of which there are far fewer than cells of the maps. Only the score's own
    layers learn from the score.

    Args:
        filters: Output channels of the convolutions at 1/2, 1/4, 1/8, 1/16 and 1/32; the first
            convolution of every level has the stride 2.
        hidden: Channels of the layer between sampled features and descriptor.
        output_dim: Number of values (real) or bits (binary; a multiple of 8).
        head: `"real"` describes by rows of unit length; `"binary"` by tanh in training and −1 or 1
            at test time.
        score_filters: Channels of the score's own layers.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        images: Grey values, 0 to 255, float32 [B, H, W, 1]; the sides are multiples of `stride`.
        statistics: Mean and standard deviation that images are standardised by, float32 [B, 2];
            by default their own. An image in strips or with a padded border takes those of the
            whole image.
        training: Whether batch statistics are used.

    Returns:
        `DenseMaps`.

    Example:
        >>> scores, features = network(images)
        >>> descriptors = network.describe(features, points)

    Attributes:
        stride: Side in pixels of the largest cells.
        feature_strides: Side in pixels of the cells of each map of features.
    """

    stride = 32
    feature_strides = (4, 8, 16, 32)

    def __init__(
        self,
        filters: Sequence[Sequence[int]] = _TRUNKS[""]["filters"],
        hidden: int = 256,
        output_dim: int = 128,
        head: str = "real",
        score_filters: int = 16,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        check_choice("head", head, HEADS)
        if head == "binary" and output_dim % 8:
            raise ValueError(
                f"output_dim of a binary head must be a multiple of 8, not {output_dim}."
            )
        if len(filters) != 5 or not all(filters):
            raise ValueError(f"filters must be five lists, one a level, not {filters!r}.")
        # With autocast a mixed policy would round the images before they are standardised.
        super().__init__(**{**kwargs, "autocast": False})
        self.filters = tuple(tuple(counts) for counts in filters)
        self.hidden = hidden
        self.output_dim = output_dim
        self.head = head
        self.score_filters = score_filters
        self.synchronized = synchronized
        self.levels = [
            [
                self._block(count, f"level{level}_{number}", strides=1 if number else 2)
                for number, count in enumerate(counts)
            ]
            for level, counts in enumerate(self.filters, 1)
        ]
        self.mixing = self._block(hidden, "mixing", kernel_size=1)
        self.projection = tf.keras.layers.Dense(
            output_dim, dtype=self.dtype_policy, name="projection"
        )
        self.score_half = self._pointwise(score_filters, "score_half")
        self.score_quarter = self._pointwise(4 * score_filters, "score_quarter")
        self.score_eighth = self._pointwise(16 * score_filters, "score_eighth")
        self.score_block = self._block(score_filters, "score_block")
        self.score_head = self._pointwise(4, "score_head")

    def _block(
        self, count: int, name: str, kernel_size: int = 3, strides: int = 1
    ) -> ConvolutionBlock:
        return ConvolutionBlock(
            count,
            kernel_size,
            strides,
            shift=True,
            synchronized=self.synchronized,
            dtype=self.dtype_policy,
            name=name,
        )

    def _pointwise(self, count: int, name: str) -> tf.keras.layers.Conv2D:
        return tf.keras.layers.Conv2D(count, 1, dtype=self.dtype_policy, name=name)

    @property
    def feature_channels(self) -> int:
        """Number of channels of all maps of features together."""
        return sum(counts[-1] for counts in self.filters[1:])

    @property
    def margin(self) -> int:
        """Pixels around a region, a multiple of 32, beyond which nothing changes its features."""
        reach = sum(2**level * len(blocks) for level, blocks in enumerate(self.levels, 1))
        return -(-reach // self.stride) * self.stride

    def build(self, input_shape: Any) -> None:
        """Builds all layers, whatever the size of the images."""
        channels: int | None = 1
        for blocks in self.levels:
            for block in blocks:
                block.build((None, None, None, channels))
                channels = block.filters
        self.mixing.build((None, None, None, self.feature_channels))
        self.projection.build((None, self.hidden))
        self.score_half.build((None, None, None, self.filters[0][-1]))
        self.score_quarter.build((None, None, None, self.filters[1][-1]))
        self.score_eighth.build((None, None, None, self.filters[2][-1]))
        self.score_block.build((None, None, None, self.score_filters))
        self.score_head.build((None, None, None, self.score_filters))
        self.built = True

    def call(
        self,
        images: tf.Tensor,
        statistics: tf.Tensor | None = None,
        training: bool = False,
    ) -> DenseMaps:
        features = tf.cast(standardize_images(images, statistics), self.compute_dtype)
        levels = []
        for blocks in self.levels:
            for block in blocks:
                features = block(features, training=training)
            levels.append(features)
        return DenseMaps(self._scores(levels[:3], training), tuple(levels[1:]))

    def _scores(self, levels: Sequence[tf.Tensor], training: bool) -> tf.Tensor:
        half, quarter, eighth = map(tf.stop_gradient, levels)
        features = self.score_half(half)
        features += tf.nn.depth_to_space(self.score_quarter(quarter), 2)
        features = tf.nn.relu(features + tf.nn.depth_to_space(self.score_eighth(eighth), 4))
        features = self.score_block(features, training=training)
        return tf.nn.depth_to_space(tf.cast(self.score_head(features), tf.float32), 2)

    def describe(
        self, features: Sequence[tf.Tensor], points: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Describes points by maps of features: float32 [B, N, output_dim].

        Args:
            features: Of `DenseMaps`.
            points: x, y in pixels of the images, float32 [B, N, 2]; (0, 0) is the centre of the
                first pixel.
            training: Whether batch statistics and the relaxed binary head are used.
        """
        return self.project(self.sample(features, points), training)

    def sample(self, features: Sequence[tf.Tensor], points: tf.Tensor) -> tf.Tensor:
        """Returns the values of all maps of features at points, [B, N, feature_channels]."""
        sampled = [
            sample_map(level, points, stride)
            for level, stride in zip(features, self.feature_strides, strict=True)
        ]
        return tf.concat(sampled, -1)

    def project(self, sampled: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Turns features sampled at points, [B, N, feature_channels], into descriptors."""
        mixed = self.mixing(sampled[:, :, tf.newaxis], training=training)[:, :, 0]
        rows = tf.cast(self.projection(mixed), tf.float32)
        if self.head == "real":
            return tf.math.l2_normalize(rows, axis=-1)
        return tf.tanh(rows) if training else tf.where(rows >= 0, 1.0, -1.0)

    @classmethod
    def least_weights(cls, config: Mapping[str, Any]) -> int:
        """Returns a number of weights below that of a configuration: of 1×1 convolutions."""
        channels = [*itertools.chain(*config["filters"]), config["hidden"], config["output_dim"]]
        return sum(before * after for before, after in itertools.pairwise(channels))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": [list(counts) for counts in self.filters],
            "hidden": self.hidden,
            "output_dim": self.output_dim,
            "head": self.head,
            "score_filters": self.score_filters,
            "synchronized": self.synchronized,
        }


def standardize_images(images: tf.Tensor, statistics: tf.Tensor | None = None) -> tf.Tensor:
    """Subtracts the mean of images [B, H, W, 1] and divides by their deviation, in float32.

    A deviation below one grey value counts as one: a flat image becomes zeros.

    Args:
        images: Grey values.
        statistics: Mean and standard deviation [B, 2]; by default those of the images.
    """
    images = tf.cast(images, tf.float32)
    if statistics is None:
        mean = tf.reduce_mean(images, axis=(1, 2, 3), keepdims=True)
        centred = images - mean
        deviation = tf.sqrt(tf.reduce_mean(tf.square(centred), axis=(1, 2, 3), keepdims=True))
    else:
        mean, deviation = tf.split(tf.reshape(statistics, [-1, 1, 1, 2]), 2, axis=-1)
        centred = images - mean
    return centred / tf.maximum(deviation, 1.0)


def sample_map(features: tf.Tensor, points: tf.Tensor, stride: int) -> tf.Tensor:
    """Bilinear values of a map at points, beyond its outermost centres those of the border.

    Args:
        features: [B, H, W, C].
        points: x, y in pixels of the image, float32 [B, N, 2].
        stride: Side in pixels of a cell of the map.

    Returns:
        float32 [B, N, C].
    """
    features = tf.cast(features, tf.float32)  # of which a GPU adds up gradients faster
    shape = tf.shape(features)
    height, width = shape[1], shape[2]
    limits = tf.cast(tf.stack([width, height]) - 1, tf.float32)
    cells = tf.clip_by_value((points + 0.5) / stride - 0.5, 0.0, limits)
    corner = tf.minimum(tf.floor(cells), tf.maximum(limits - 1, 0.0))
    share = cells - corner
    column, row = tf.unstack(tf.cast(corner, tf.int32), axis=-1)
    flat = tf.reshape(features, [shape[0], height * width, features.shape[-1]])
    right, down = tf.minimum(width - 1, 1), tf.minimum(height - 1, 1)
    index = row * width + column

    def along(index: tf.Tensor) -> tf.Tensor:
        one, two = (tf.gather(flat, index + step, batch_dims=1) for step in (0, right))
        return one + share[..., :1] * (two - one)

    above, below = along(index), along(index + down * width)
    return above + share[..., 1:] * (below - above)
