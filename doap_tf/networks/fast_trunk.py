"""Trunks that cost a CPU no more than SIFT: early strides and few channels."""

from typing import Any

import tensorflow as tf

from doap_tf.errors import check_choice
from doap_tf.networks.trunk import Trunk, TrunkShape

# Files of networks hold these names: what a name means must not change once a network ships.
PRESETS = {
    "fast": TrunkShape((32, 64, 64, 64), (4, 1, 1, 2), first_kernel=4, separable=True, shift=True),
    "tiny": TrunkShape((16, 32, 32, 32), (4, 1, 1, 2), first_kernel=4, separable=True, shift=True),
}


@tf.keras.utils.register_keras_serializable("doap_tf")
class FastTrunk(Trunk):
    """Blocks of 4×4 pixels, then depthwise and 1×1 convolutions, chosen by their time on CPUs.

    See docs/experiments/fast_trunks.md.

    Args:
        preset: Name of one of `PRESETS`.
        output_dim: Length of the output vector.
        width: Multiplier of the number of filters of all but the last convolution.
        dropout: Dropout rate before the last convolution.
        synchronized: Whether batch statistics are computed over all replicas of a strategy.

    Call arguments and what it returns: see `Trunk`.
    """

    def __init__(
        self,
        preset: str = "fast",
        output_dim: int = 128,
        width: float = 1.0,
        dropout: float = 0.1,
        synchronized: bool = False,
        **kwargs: Any,
    ):
        check_choice("preset", preset, PRESETS)
        super().__init__(PRESETS[preset], output_dim, width, dropout, synchronized, **kwargs)
        self.preset = preset

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "preset": self.preset}
