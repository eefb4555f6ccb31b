"""Descriptors whose answers are known: they read numbers that were written into the patches."""

import dataclasses

import numpy as np

from doap_tf.metrics import NORM_HAMMING, NORM_L2

WIDTH = 32


@dataclasses.dataclass
class Reader:
    """Gives the first 32 pixels of each patch, as numbers or as packed bits."""

    norm: int = NORM_L2
    weights_sha256: str = "0" * 64
    described: int = 0

    @property
    def dimension(self) -> int:
        return 8 * WIDTH if self.norm == NORM_HAMMING else WIDTH

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        self.described += len(patches)
        rows = patches[:, 0, :WIDTH]
        return rows.copy() if self.norm == NORM_HAMMING else rows.astype(np.float32)
