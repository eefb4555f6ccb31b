"""The descriptor network: standardisation, spatial transformer, trunk, real or binary head."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.features.frames import DEFAULT_MAGNIFICATION
from doap_tf.networks.fast_trunk import PRESETS, FastTrunk
from doap_tf.networks.l2net import L2NET_SHAPE, L2Net
from doap_tf.networks.spatial_transformer import PADDINGS, SpatialTransformer
from doap_tf.networks.trunk import Trunk

HEADS = ("real", "binary")
TRUNKS = {"l2net": L2NET_SHAPE, **PRESETS}
_TRANSFORMER_INPUT_SIZE = 42


def standardize(patches: tf.Tensor) -> tf.Tensor:
    """Scales each patch [B, H, W, 1] to zero mean and unit standard deviation, in float32.

    A constant patch becomes zeros (up to rounding), never NaN.
    """
    patches = tf.cast(patches, tf.float32)
    centered = patches - tf.reduce_mean(patches, axis=(1, 2, 3), keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=(1, 2, 3), keepdims=True)
    return centered * tf.math.rsqrt(tf.maximum(variance, 1e-10))


def pack_bits(signs: tf.Tensor) -> tf.Tensor:
    """Packs the signs [B, bits] into bytes [B, bits / 8], in the order of `numpy.packbits`."""
    bits = tf.cast(signs > 0, tf.int32)
    octets = tf.reshape(bits, [-1, signs.shape[-1] // 8, 8])
    return tf.cast(tf.reduce_sum(octets * [128, 64, 32, 16, 8, 4, 2, 1], axis=-1), tf.uint8)


@tf.keras.utils.register_keras_serializable("doap_tf")
class DescriptorNetwork(tf.keras.Model):
    """Turns patches into descriptors.

    Args:
        output_dim: Number of values (real) or bits (binary; a multiple of 8).
        head: `"real"` returns rows of unit length; `"binary"` returns tanh in training and −1 or 1
            at test time.
        width: Multiplier of the trunk's filters.
        dropout: Dropout rate before the last convolution.
        spatial_transformer: Whether patches are 42×42 and aligned first; otherwise they are 32×32.
        padding: What the transformer reads outside a patch, see `affine_sample`.
        magnification: Half the side of a patch over the radius of its keypoint that the weights
            were trained for; stored with the model because another one costs accuracy.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.
        trunk: `"l2net"`, the paper's, or one of those made for CPUs, see `FastTrunk`.

    Call arguments:
        patches: uint8 or float patches of any scale, [B, S, S, 1] with S = `input_size`.
        training: Whether batch statistics, dropout and the relaxed binary head are used.

    Returns:
        float32 descriptors, [B, output_dim].

    Example:
        >>> network = DescriptorNetwork(output_dim=256, head="binary")
        >>> network(np.zeros([5, 32, 32, 1], "uint8")).shape
        TensorShape([5, 256])

    Reference:
        He, Lu, Sclaroff: Local Descriptors Optimized for Average Precision. CVPR 2018.
    """

    def __init__(
        self,
        output_dim: int = 128,
        head: str = "real",
        width: float = 1.0,
        dropout: float = 0.1,
        spatial_transformer: bool = False,
        padding: str = "replicate",
        magnification: float = DEFAULT_MAGNIFICATION,
        synchronized: bool = False,
        trunk: str = "l2net",
        **kwargs: Any,
    ):
        check_choice("head", head, HEADS)
        check_choice("trunk", trunk, TRUNKS)
        if head == "binary" and output_dim % 8:
            raise ValueError(
                f"output_dim of a binary head must be a multiple of 8, not {output_dim}."
            )
        check_choice("padding", padding, PADDINGS)
        if not magnification > 0:
            raise ValueError(f"magnification must be above 0, not {magnification!r}.")
        # With autocast a mixed policy would round the patches before they are standardised.
        super().__init__(**{**kwargs, "autocast": False})
        self.output_dim = output_dim
        self.head = head
        self.width = width
        self.dropout = dropout
        self.spatial_transformer = spatial_transformer
        self.padding = padding
        self.magnification = magnification
        self.synchronized = synchronized
        self.transformer = None
        if spatial_transformer:
            self.transformer = SpatialTransformer(
                Trunk.INPUT_SIZE,
                padding,
                synchronized,
                dtype=self.dtype_policy,
                name="spatial_transformer",
            )
        self.trunk_name = trunk
        options = {"dtype": self.dtype_policy, "name": "trunk"}
        if trunk == "l2net":
            self.trunk = L2Net(output_dim, width, dropout, synchronized, **options)
        else:
            self.trunk = FastTrunk(trunk, output_dim, width, dropout, synchronized, **options)

    @property
    def input_size(self) -> int:
        """Side of the patches that the network takes."""
        return _TRANSFORMER_INPUT_SIZE if self.spatial_transformer else Trunk.INPUT_SIZE

    def build(self, input_shape: tuple) -> None:
        self._check_shape(input_shape)
        size = self.input_size
        if self.transformer is not None:
            self.transformer.build((None, size, size, 1))
        self.trunk.build((None, Trunk.INPUT_SIZE, Trunk.INPUT_SIZE, 1))
        self.built = True

    def call(self, patches: tf.Tensor, training: bool = False) -> tf.Tensor:
        self._check_shape(patches.shape)
        aligned = standardize(patches)
        if self.transformer is not None:
            aligned = standardize(self.transformer(aligned, training=training))
        vectors = tf.cast(self.trunk(aligned, training=training), tf.float32)
        if self.head == "real":
            return tf.math.l2_normalize(vectors, axis=-1)
        if training:
            return tf.tanh(vectors)
        return tf.where(vectors >= 0, 1.0, -1.0)

    def describe_packed(self, patches: tf.Tensor) -> tf.Tensor:
        """Returns the bits of a binary network as bytes, uint8 [B, output_dim / 8]."""
        if self.head != "binary":
            raise ValueError("only a network with head='binary' has bits to pack.")
        return pack_bits(self(patches, training=False))

    def align(self, patches: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the aligned patches [B, 32, 32, 1] and the affine maps [B, 2, 3]."""
        if self.transformer is None:
            raise ValueError("only a network with spatial_transformer=True aligns patches.")
        return self.transformer(standardize(patches), return_transform=True)

    def compute_output_shape(self, input_shape: tuple) -> tuple:
        return (input_shape[0], self.output_dim)

    @classmethod
    def least_weights(cls, config: Mapping[str, Any]) -> int:
        """Returns a number of weights below that of a configuration: those of the last kernel."""
        shape = TRUNKS[config.get("trunk", "l2net")]
        return config.get("output_dim", 0) * config.get("width", 0) * shape.last_inputs

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "output_dim": self.output_dim,
            "head": self.head,
            "width": self.width,
            "dropout": self.dropout,
            "spatial_transformer": self.spatial_transformer,
            "padding": self.padding,
            "magnification": self.magnification,
            "synchronized": self.synchronized,
            "trunk": self.trunk_name,
        }

    def _check_shape(self, shape: tuple) -> None:
        size = self.input_size
        if len(shape) != 4 or tuple(shape[1:]) != (size, size, 1):
            raise ValueError(
                f"patches must have the shape [B, {size}, {size}, 1], not {list(shape)}; "
                "doap_tf.Descriptor takes patches of any square size."
            )
