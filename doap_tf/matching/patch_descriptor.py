"""Describing frames of an image by the patches that are cut at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.cutting import Pyramid

_CHUNK = 4096  # patches cut before they are described: 7 MB of 42 × 42
_BASELINE_SIZE = 64  # side of the patches that a descriptor without a size of its own gets


class PatchDescriptor:
    """Cuts patches from a pyramid and has them described, in chunks of bounded memory.

    Args:
        descriptor: `doap_tf.Descriptor`, a baseline, or any object with `describe(patches)`,
            `norm`, `dimension` and `magnification`.
        magnification: Half the side of a patch over the frame's radius; the descriptor's own if
            None, which is what it was trained for.
        batch_size: How many patches run through the network at a time.
    """

    def __init__(self, descriptor: Any, magnification: float | None, batch_size: int):
        self.descriptor = descriptor
        self.norm = descriptor.norm
        self.dimension = descriptor.dimension
        self.magnification = descriptor.magnification if magnification is None else magnification
        self.batch_size = batch_size
        if not self.magnification > 0:
            raise InputError(f"magnification must be above 0, not {magnification!r}.")

    def cut(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """The patches uint8 [N, S, S] that would be described, at the network's own size."""
        return self._cut(Pyramid(image), frames)

    def describe_frames(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Describes frames [N, 2, 3] of a grey image, uint8 [H, W].

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
        pyramid = Pyramid(image)
        # One chunk runs even without frames: it knows the width and the dtype of the rows.
        starts = range(0, max(len(frames), 1), _CHUNK)
        rows = [
            self.descriptor.describe(
                self._cut(pyramid, frames[start : start + _CHUNK]), batch_size=self.batch_size
            )
            for start in starts
        ]
        return np.concatenate(rows)

    def _cut(self, pyramid: Pyramid, frames: np.ndarray) -> np.ndarray:
        size = getattr(self.descriptor, "input_size", _BASELINE_SIZE)
        return pyramid.cut(frames, size, self.magnification)
