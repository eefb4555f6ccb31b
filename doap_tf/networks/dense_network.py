"""The network that reads a whole image, scores every pixel and describes any point."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.networks.convolution import ConvolutionBlock
from doap_tf.networks.descriptor_network import HEADS

_MEDIUM: dict[str, Any] = {
    "filters": ((16, 16), (48, 48), (96, 96), (128, 128, 128), (128, 128, 128)),
    "fold": 2,
    "head_stride": 8,
}
_SMALL: dict[str, Any] = {
    "filters": ((), (24, 24), (48, 48), (64, 64), (64, 64)),
    "width": 64,
    "fold": 4,
    "head_stride": 8,
}
DENSE_PRESETS: dict[str, dict[str, Any]] = {
    "dense-large-128": {},
    "dense-128": _MEDIUM,
    "dense-256b": {**_MEDIUM, "output_dim": 256, "head": "binary"},
    "dense-small-256b": {**_SMALL, "output_dim": 256, "head": "binary"},
}


class DenseMaps(NamedTuple):
    """What `DenseNetwork` makes of images [B, H, W, 1].

    Attributes:
        scores: Logits, float32 [B, H, W, 1]: the larger, the better the keypoint.
        features: Maps [B, H / s, W / s, C], one for each s of the network's `feature_strides`;
            `DenseNetwork.describe` turns them into descriptors.
    """

    scores: tf.Tensor
    features: tuple[tf.Tensor, ...]


@tf.keras.utils.register_keras_serializable("doap_tf")
class DenseNetwork(tf.keras.Model):
    """One trunk, a score for every pixel, and features from which any point is described.

    3×3 convolutions go down from half the resolution to a 32nd. The four coarser levels are brought
    to as many channels and added from coarse to fine. The last layer is linear and therefore runs
    on the values sampled at keypoints, of which there are far fewer than cells of the maps. Nothing
    but the score's own layers learns from the score.

    Args:
        filters: Output channels of the convolutions at 1/2, 1/4, 1/8, 1/16 and 1/32.
        width: Channels that the levels are brought to.
        fold: Side of the blocks of pixels that are folded into channels first: 1, 2 or 4; at 4
            there are no convolutions at 1/2.
        head_stride: 4: all levels are added at 1/4, followed by the head's convolution there. 8:
            the same at 1/8, which costs a quarter, and features of 1/4 join the last layer.
        output_dim: Number of values (real) or bits (binary; a multiple of 8).
        head: `"real"` describes by rows of unit length; `"binary"` by tanh in training and −1 or 1
            at test time.
        score_filters: Channels of the score's own layers.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments:
        images: Grey values, 0 to 255, float32 [B, H, W, 1]; the sides are multiples of 32.
        statistics: Mean and standard deviation that images are standardised by, float32 [B, 2];
            by default their own. An image in strips or with a padded border takes those of the
            whole image.
        training: Whether batch statistics are used.

    Returns:
        `DenseMaps`.
    """

    stride = 32

    def __init__(
        self,
        filters: Sequence[Sequence[int]] = (
            (16, 32),
            (64, 64),
            (96, 96, 96),
            (128, 128, 128),
            (128, 128, 128),
        ),
        width: int = 128,
        fold: int = 1,
        head_stride: int = 4,
        output_dim: int = 128,
        head: str = "real",
        score_filters: int = 16,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        if head not in HEADS:
            raise ValueError(f"head must be one of {', '.join(HEADS)}, not {head!r}.")
        if head == "binary" and output_dim % 8:
            raise ValueError(
                f"output_dim of a binary head must be a multiple of 8, not {output_dim}."
            )
        if fold not in (1, 2, 4) or head_stride not in (4, 8):
            raise ValueError(
                f"fold must be 1, 2 or 4 and head_stride 4 or 8, not {fold} and {head_stride}."
            )
        if len(filters) != 5 or not all(filters[1:]) or bool(filters[0]) != (fold < 4):
            raise ValueError(
                "filters must be five lists, one a level, and the first of them is empty if and "
                f"only if fold is 4; they are {filters!r} with fold {fold}."
            )
        # With autocast a mixed policy would round the images before they are standardised.
        super().__init__(**{**kwargs, "autocast": False})
        self.filters = tuple(tuple(counts) for counts in filters)
        self.width = width
        self.fold = fold
        self.head_stride = head_stride
        self.output_dim = output_dim
        self.head = head
        self.score_filters = score_filters
        self.synchronized = synchronized
        self.levels = [
            [
                self._block(count, f"level{level}_{number}", self._step(level, number))
                for number, count in enumerate(counts)
            ]
            for level, counts in enumerate(self.filters, 1)
        ]
        joined = range(self._finest_joined, 6)
        self.laterals = [self._pointwise(width, f"lateral{level}") for level in joined]
        self.mixing = self._block(width, "mixing")
        self.projection = tf.keras.layers.Dense(
            output_dim, dtype=self.dtype_policy, name="projection"
        )
        if fold < 4:
            self.score_fine = self._pointwise(score_filters, "score_fine")
            self.score_context = self._pointwise(4 * score_filters, "score_context")
        self.score_block = self._block(score_filters, "score_block")
        self.score_head = self._pointwise(self._score_stride**2, "score_head")

    def _block(self, count: int, name: str, strides: int = 1) -> ConvolutionBlock:
        return ConvolutionBlock(
            count,
            strides=strides,
            shift=True,
            synchronized=self.synchronized,
            dtype=self.dtype_policy,
            name=name,
        )

    def _pointwise(self, count: int, name: str) -> tf.keras.layers.Conv2D:
        return tf.keras.layers.Conv2D(count, 1, dtype=self.dtype_policy, name=name)

    def _step(self, level: int, number: int) -> int:
        """Stride of a convolution: that of a level's first one, unless pixels were folded."""
        return 1 if number or 2**level <= self.fold else 2

    @property
    def _finest_joined(self) -> int:
        """Number of the finest of the levels that are added."""
        return 2 if self.head_stride == 4 else 3

    @property
    def _score_stride(self) -> int:
        return 2 if self.fold < 4 else 4

    @property
    def feature_strides(self) -> tuple[int, ...]:
        """Side in pixels of the cells of each map of features."""
        return (4,) if self.head_stride == 4 else (8, 4)

    @property
    def feature_channels(self) -> int:
        """Number of channels of all maps of features together."""
        return self.width + (self.filters[1][-1] if self.head_stride == 8 else 0)

    @property
    def margin(self) -> int:
        """Pixels around a region, a multiple of 32, beyond which nothing changes its features."""
        reach = stride = self.fold
        for level, blocks in enumerate(self.levels, 1):
            for number, _ in enumerate(blocks):
                reach += stride
                stride *= self._step(level, number)
            if level > self._finest_joined:
                reach += stride  # of bilinear upsampling
        return -(-(reach + 2 * self.head_stride) // self.stride) * self.stride

    def build(self, input_shape: Any) -> None:
        """Builds all layers, whatever the size of the images."""
        channels = self.fold**2
        for blocks in self.levels:
            for block in blocks:
                block.build((None, None, None, channels))
                channels = block.filters
        for counts, lateral in zip(
            self.filters[self._finest_joined - 1 :], self.laterals, strict=True
        ):
            lateral.build((None, None, None, counts[-1]))
        self.mixing.build((None, None, None, self.width))
        self.projection.build((None, self.feature_channels))
        fine = self.filters[1][-1]
        if self.fold < 4:
            self.score_fine.build((None, None, None, self.filters[0][-1]))
            self.score_context.build((None, None, None, fine))
            fine = self.score_filters
        self.score_block.build((None, None, None, fine))
        self.score_head.build((None, None, None, self.score_filters))
        self.built = True

    def call(
        self,
        images: tf.Tensor,
        statistics: tf.Tensor | None = None,
        training: bool = False,
    ) -> DenseMaps:
        features = tf.cast(standardize_images(images, statistics), self.compute_dtype)
        if self.fold > 1:
            features = tf.nn.space_to_depth(features, self.fold)
        levels = []
        for blocks in self.levels:
            for block in blocks:
                features = block(features, training=training)
            levels.append(features)
        joined = levels[self._finest_joined - 1 :]
        total = self.laterals[-1](joined[-1])
        for lateral, level in zip(self.laterals[-2::-1], joined[-2::-1], strict=True):
            total = lateral(level) + _upsample(total)
        maps = (self.mixing(total, training=training),)
        if self.head_stride == 8:
            maps += (levels[1],)
        return DenseMaps(self._scores(levels[0], levels[1], training), maps)

    def _scores(self, half: tf.Tensor, quarter: tf.Tensor, training: bool) -> tf.Tensor:
        features = tf.stop_gradient(quarter)
        if self.fold < 4:
            context = tf.nn.depth_to_space(self.score_context(features), 2)
            features = tf.nn.relu(self.score_fine(tf.stop_gradient(half)) + context)
        features = self.score_block(features, training=training)
        return tf.nn.depth_to_space(
            tf.cast(self.score_head(features), tf.float32), self._score_stride
        )

    def describe(
        self, features: Sequence[tf.Tensor], points: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Describes points by maps of features: float32 [B, N, output_dim].

        Args:
            features: Of `DenseMaps`.
            points: x, y in pixels of the images, float32 [B, N, 2]; (0, 0) is the centre of the
                first pixel.
            training: Whether the relaxed binary head is used.
        """
        sampled = [
            sample_map(level, points, stride)
            for level, stride in zip(features, self.feature_strides, strict=True)
        ]
        return self.project(tf.concat(sampled, -1), training)

    def project(self, sampled: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Turns features sampled at points [..., feature_channels] into descriptors."""
        rows = tf.cast(self.projection(sampled), tf.float32)
        if self.head == "real":
            return tf.math.l2_normalize(rows, axis=-1)
        return tf.tanh(rows) if training else tf.where(rows >= 0, 1.0, -1.0)

    def multiply_adds(self) -> float:
        """Returns the multiplications with additions of `call` for each pixel of an image."""
        total, stride = 0.0, self.fold
        for level, blocks in enumerate(self.levels, 1):
            for number, block in enumerate(blocks):
                stride *= self._step(level, number)
                total += _size(block.convolution) / stride**2
        for number, lateral in enumerate(self.laterals):
            total += _size(lateral) / 4 ** (self._finest_joined + number)
        total += _size(self.mixing.convolution) / self.head_stride**2
        if self.fold < 4:
            total += _size(self.score_fine) / 4 + _size(self.score_context) / 16
        of_scores = _size(self.score_block.convolution) + _size(self.score_head)
        return total + of_scores / self._score_stride**2

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "filters": [list(counts) for counts in self.filters],
            "width": self.width,
            "fold": self.fold,
            "head_stride": self.head_stride,
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
        [B, N, C], of the type of the map.
    """
    shape = tf.shape(features)
    height, width = shape[1], shape[2]
    limits = tf.cast(tf.stack([width, height]) - 1, tf.float32)
    cells = tf.clip_by_value((points + 0.5) / stride - 0.5, 0.0, limits)
    corner = tf.minimum(tf.floor(cells), tf.maximum(limits - 1, 0.0))
    share = tf.cast(cells - corner, features.dtype)
    column, row = tf.unstack(tf.cast(corner, tf.int32), axis=-1)
    flat = tf.reshape(features, [shape[0], height * width, features.shape[-1]])
    right, down = tf.minimum(width - 1, 1), tf.minimum(height - 1, 1)
    index = row * width + column

    def along(index: tf.Tensor) -> tf.Tensor:
        one, two = (tf.gather(flat, index + step, batch_dims=1) for step in (0, right))
        return one + share[..., :1] * (two - one)

    above, below = along(index), along(index + down * width)
    return above + share[..., 1:] * (below - above)


def _upsample(features: tf.Tensor) -> tf.Tensor:
    """Doubles the sides of a map bilinearly; outside it is zero.

    Operations that resize would keep the size of the images they were converted with.
    """
    phases = np.array([[0.25, 0.75, 0.0], [0.0, 0.75, 0.25]])
    channels = features.shape[-1]
    parts = []
    for vertical in phases:
        for horizontal in phases:
            kernel = np.outer(vertical, horizontal)[..., np.newaxis, np.newaxis]
            kernel = tf.constant(np.tile(kernel, [1, 1, channels, 1]), features.dtype)
            parts.append(tf.nn.depthwise_conv2d(features, kernel, [1, 1, 1, 1], "SAME"))
    return tf.nn.depth_to_space(tf.concat(parts, -1), 2)


def _size(layer: Any) -> int:
    return int(np.prod(layer.kernel.shape))
