"""Describing patches of any size with a network, whatever runs it."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from doap_tf.descriptors.patch_resizing import resize
from doap_tf.descriptors.protocol import checked_patches
from doap_tf.errors import InputError
from doap_tf.metrics.distances import NORM_HAMMING, NORM_L2, descriptor_size

if TYPE_CHECKING:  # brings TensorFlow
    from doap_tf.networks import DescriptorNetwork


class Backend(Protocol):
    """What runs a network: Keras, a SavedModel or LiteRT.

    `name` and `precision`, such as "litert" and "float32", stand in results.
    """

    name: str
    precision: str
    input_size: int
    head: str
    output_dim: int
    magnification: float

    def infer(self, patches: np.ndarray) -> npt.ArrayLike:
        """Describes uint8 or float32 [N, S, S, 1], N ≥ 1.

        Returns:
            float32 [N, D] or uint8 [N, bits / 8]; the values may still be on their way from a GPU
            until the result is turned into an array.
        """

    def weights_sha256(self) -> str:
        """Identifies the weights in results."""


class Descriptor:
    """A descriptor network that takes and returns NumPy arrays.

    It can be called like a function, copied and pickled.

    Args:
        network: A Keras network, or another backend that runs one.
        read_keras: Reads the Keras network from which another backend's model was made.

    Example:
        >>> descriptor = Descriptor(DescriptorNetwork())
        >>> descriptor(np.zeros([7, 65, 65], "uint8")).shape
        (7, 128)
    """

    def __init__(
        self,
        network: DescriptorNetwork | Backend,
        read_keras: Callable[[], DescriptorNetwork] | None = None,
    ):
        self._backend = _as_backend(network)
        self._read_keras = read_keras

    def __repr__(self) -> str:
        size = descriptor_size(self.norm, self.dimension)
        side = self.input_size
        return f"Descriptor({size} of patches of {side}×{side}, {self.backend}, {self.precision})"

    def to_keras(self) -> DescriptorNetwork:
        """Returns the network as a Keras model.

        Where Keras runs it, it is the network itself, and descriptors follow what is done to it; of
        a network that ships and is run by LiteRT it is a copy.
        """
        if hasattr(self._backend, "network"):
            return self._backend.network
        if self._read_keras is None:
            raise InputError(
                f"an export that {self.backend} runs cannot be turned into a Keras network: load "
                "the .keras file or the training directory that it came from."
            )
        return self._read_keras()

    @property
    def network(self) -> DescriptorNetwork | None:
        """Deprecated: use `to_keras`. None for an export."""
        warnings.warn("use Descriptor.to_keras()", DeprecationWarning, stacklevel=2)
        with contextlib.suppress(InputError):
            return self.to_keras()
        return None

    @property
    def backend(self) -> str:
        """What runs the network: `"keras"`, `"saved_model"` or `"litert"`."""
        return self._backend.name

    @property
    def precision(self) -> str:
        """What the network computes in: `"float32"`; of a .tflite file also another."""
        return self._backend.precision

    @property
    def input_size(self) -> int:
        """Side of the network's patches; others are resized to it."""
        return self._backend.input_size

    @property
    def binary(self) -> bool:
        """Whether descriptors are packed bits."""
        return self._backend.head == "binary"

    @property
    def dimension(self) -> int:
        """Number of values, or of bits."""
        return self._backend.output_dim

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""
        return NORM_HAMMING if self.binary else NORM_L2

    @property
    def magnification(self) -> float:
        """Half the side of a patch over the radius of its keypoint, as in training."""
        return self._backend.magnification

    @property
    def weights_sha256(self) -> str:
        """Identifies the weights in results."""
        return self._backend.weights_sha256()

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches.

        Args:
            patches: uint8 or float, [N, H, W], [N, H, W, 1] or, one alone, [H, W], H = W ≥ 16, of
                any scale up to 1e15. Patches of another size than `input_size` are resized with
                anti-aliasing.
            batch_size: Number of patches that run through the network at a time.

        Returns:
            float32 [N, D], rows of unit length; of a binary network uint8 [N, bits / 8], bits in
            the order of `numpy.packbits`.
        """
        patches = checked_patches(patches)
        if batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}.")
        width, dtype = (
            (self.dimension // 8, np.uint8) if self.binary else (self.dimension, np.float32)
        )
        descriptors = np.empty([len(patches), width], dtype)
        starts = range(0, len(patches), batch_size)
        results = (self._infer(patches[start : start + batch_size]) for start in starts)
        # A result is fetched while the next one is computed, so that a GPU does not wait.
        pairs = itertools.pairwise(itertools.chain(results, [()]))
        for start, (result, _) in zip(starts, pairs, strict=True):
            descriptors[start : start + batch_size] = result
        return descriptors

    __call__ = describe

    def _infer(self, patches: np.ndarray) -> npt.ArrayLike:
        if patches.shape[1] != self.input_size:
            patches = resize(patches, self.input_size)
        if patches.dtype != np.uint8:
            patches = patches.astype(np.float32, copy=False)
        return self._backend.infer(patches)


def _as_backend(network: Any) -> Backend:
    """Returns a backend as it is, and the one that runs a Keras network."""
    if hasattr(network, "infer"):
        return network
    from doap_tf.descriptors.keras_backend import KerasBackend

    return KerasBackend(network)
