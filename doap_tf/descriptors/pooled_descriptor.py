"""Describing frames of an image by the patches cut at them, at one magnification or several."""

from collections.abc import Sequence

import numpy as np

from doap_tf.descriptors.protocol import PatchDescriptor
from doap_tf.errors import InputError
from doap_tf.features.cutting import Pyramid
from doap_tf.metrics import NORM_HAMMING

_CHUNK = 4096  # patches cut before they are described: 7 MB of 42 × 42
_BASELINE_SIZE = 64  # side of the patches for a descriptor without an input size


class PooledDescriptor:
    """Cuts patches from a pyramid and describes them, in chunks of bounded memory.

    Several magnifications are pooled (Dong and Soatto, "Domain-Size Pooling in Local Descriptors:
    DSP-SIFT", CVPR 2015): each frame is described at all of them, and its descriptor is

    - of values: the mean of the rows, scaled to the length of the longest, so that unit length is
      kept, even if a baseline returns zeros for one patch; a mean of zeros stays zeros;
    - of bits: the majority of the rows, so the number of magnifications must be odd.

    Args:
        descriptor: Describes the patches.
        magnification: Half the side of a patch over the frame's radius; by default the
            descriptor's own, which it was trained for. Several are pooled.
        batch_size: Number of patches that run through the network at a time.
    """

    def __init__(
        self,
        descriptor: PatchDescriptor,
        magnification: float | Sequence[float] | None,
        batch_size: int,
    ):
        self.descriptor = descriptor
        self.norm = descriptor.norm
        self.dimension = descriptor.dimension
        self.batch_size = batch_size
        if magnification is None:
            magnification = getattr(descriptor, "magnification", None)
        self._magnifications = _as_magnifications(magnification)
        if self.norm == NORM_HAMMING and len(self._magnifications) % 2 == 0:
            raise InputError(
                "bits are pooled by majority: give an odd number of magnifications, such as "
                f"8, 14 and 28, not {len(self._magnifications)}."
            )

    @property
    def magnification(self) -> float | tuple[float, ...]:
        """The magnification, or all of them where several are pooled."""
        first, *others = self._magnifications
        return self._magnifications if others else first

    def cut(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Returns the patches uint8 [N, S, S] that are described, at the first magnification."""
        return self._cut(Pyramid(image), frames, self._magnifications[0])

    def describe_frames(self, image: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Describes frames [N, 2, 3] of a grey image, uint8 [H, W].

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
        pyramid = Pyramid(image)
        # One chunk runs even without frames: it determines the width and dtype of the rows.
        starts = range(0, max(len(frames), 1), _CHUNK)
        return np.concatenate(
            [self._describe(pyramid, frames[start : start + _CHUNK]) for start in starts]
        )

    def _describe(self, pyramid: Pyramid, frames: np.ndarray) -> np.ndarray:
        rows = [
            self.descriptor.describe(self._cut(pyramid, frames, each), batch_size=self.batch_size)
            for each in self._magnifications
        ]
        return rows[0] if len(rows) == 1 else pool(np.stack(rows), self.norm)

    def _cut(self, pyramid: Pyramid, frames: np.ndarray, magnification: float) -> np.ndarray:
        size = getattr(self.descriptor, "input_size", _BASELINE_SIZE)
        return pyramid.cut(frames, size, magnification)


def pool(rows: np.ndarray, norm: int) -> np.ndarray:
    """Pools M descriptors of each of N frames, [M, N, D] or packed bits [M, N, bits / 8]."""
    return (_majority if norm == NORM_HAMMING else _mean)(rows)


def _as_magnifications(given: float | Sequence[float] | None) -> tuple[float, ...]:
    values = np.atleast_1d(np.asarray(given, np.float64))
    if values.ndim > 1 or not values.size or not ((values > 0) & (values < np.inf)).all():
        raise InputError(f"magnification must be a number above 0, or several, not {given!r}.")
    return tuple(values.tolist())


def _mean(rows: np.ndarray) -> np.ndarray:
    """Mean [N, D] of float32 [M, N, D], each row scaled to the length of the longest of its M."""
    lengths = np.linalg.norm(rows, axis=2, keepdims=True).max(axis=0)
    mean = rows.mean(axis=0)
    return mean * (lengths / np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12))


def _majority(rows: np.ndarray) -> np.ndarray:
    """Majority [N, B] of packed bits [M, N, B]."""
    bits = np.unpackbits(rows, axis=2)
    return np.packbits(2 * bits.sum(axis=0, dtype=np.int32) > len(bits), axis=1)
