"""What every descriptor of patches offers."""

from typing import Protocol

import numpy as np


class PatchDescriptor(Protocol):
    """Describes patches: `doap_tf.Descriptor`, a handcrafted descriptor, or one of your own.

    One with an attribute `input_size` gets patches cut at that size, others at 64×64; one with
    `weights_sha256` is identified by it in results.
    """

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""

    @property
    def dimension(self) -> int:
        """Number of values, or of bits."""

    @property
    def magnification(self) -> float:
        """Half the side of a patch over the radius of its keypoint that suits the descriptor."""

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches.

        Args:
            patches: uint8 [N, H, H].
            batch_size: How many to process at a time, where that matters.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
