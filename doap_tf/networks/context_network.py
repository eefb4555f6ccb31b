"""The network that describes points by the whole image and by the patch around each of them."""

from typing import Any

import tensorflow as tf

from doap_tf.features.frames import DEFAULT_MAGNIFICATION
from doap_tf.networks.dense_network import DENSE_PRESETS, DenseNetwork
from doap_tf.networks.descriptor_network import standardize
from doap_tf.networks.fast_trunk import FastTrunk
from doap_tf.networks.trunk import Trunk

#: Settings by name: half of 128 floats or of 256 bits each from the maps and from the patch.
CONTEXT_PRESETS: dict[str, dict[str, Any]] = {
    f"context-{length}": DENSE_PRESETS[f"dense-{length}"] for length in ("128", "256b")
}


@tf.keras.utils.register_keras_serializable("doap_tf")
class ContextNetwork(DenseNetwork):
    """A `DenseNetwork` whose descriptors have one half from its maps, one from an oriented patch.

    The maps know the surroundings of a point, which survive changes of light, season and sensor;
    the patch, cut at a frame, stays the same where the image is turned, scaled or seen from aside.
    `describe` gives the first half by itself, `describe_patches` the second, `join` makes
    descriptors of both.

    Args:
        map_share: Squared length of the maps' half of a real descriptor; bits all count alike.
        magnification: Half the side of a patch over the radius of its keypoint; stored with the
            model.
        trunk: Of the patches, see `FastTrunk`.
        dropout: Dropout rate before the trunk's last convolution.
        **kwargs: Those of `DenseNetwork`.

    Attributes:
        patch_size: S, side of the patches.
    """

    patch_size = Trunk.INPUT_SIZE

    def __init__(
        self,
        map_share: float = 0.5,
        magnification: float = DEFAULT_MAGNIFICATION,
        trunk: str = "fast",
        dropout: float = 0.1,
        **kwargs: Any,
    ):
        if not 0 < map_share < 1:
            raise ValueError(f"map_share must be between 0 and 1, not {map_share!r}.")
        super().__init__(**kwargs)
        if self.output_dim % 16:
            raise ValueError(f"output_dim must be a multiple of 16, not {self.output_dim}.")
        self.map_share = map_share
        self.magnification = magnification
        self.trunk_name = trunk
        self.dropout = dropout
        self.trunk = FastTrunk(
            trunk,
            self.map_dim,
            dropout=dropout,
            synchronized=self.synchronized,
            dtype=self.dtype_policy,
            name="trunk",
        )

    @property
    def map_dim(self) -> int:
        """Number of the values or bits of a descriptor that come from the maps: half of them."""
        return self.output_dim // 2

    def build(self, input_shape: Any) -> None:
        """Builds all layers, whatever the size of the images."""
        super().build(input_shape)
        self.trunk.build((None, self.patch_size, self.patch_size, 1))

    def describe_patches(self, patches: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Turns patches of any scale, [M, S, S, 1], into their halves: float32 [M, map_dim]."""
        return self._finish(self.trunk(standardize(patches), training=training), training)

    def join(self, of_maps: tf.Tensor, of_patches: tf.Tensor) -> tf.Tensor:
        """Makes descriptors [..., output_dim] of both halves [..., map_dim]."""
        if self.head == "real":
            of_maps *= self.map_share**0.5
            of_patches *= (1 - self.map_share) ** 0.5
        return tf.concat([of_maps, of_patches], -1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "map_share": self.map_share,
            "magnification": self.magnification,
            "trunk": self.trunk_name,
            "dropout": self.dropout,
        }
