"""Describing patches of any size from NumPy, whatever runs the network underneath."""

import itertools
from typing import Protocol

import numpy as np
import numpy.typing as npt

from doap_tf.descriptors.keras_backend import KerasBackend
from doap_tf.errors import InputError
from doap_tf.metrics.distances import NORM_HAMMING, NORM_L2
from doap_tf.networks import DescriptorNetwork
from doap_tf.preprocessing import resize_patches

_SMALLEST_PATCH = 16
_LARGEST_VALUE = 1e15  # the network squares and sums them in float32


class Backend(Protocol):
    """What runs a network: Keras, a SavedModel or LiteRT."""

    input_size: int
    head: str
    output_dim: int
    magnification: float

    def infer(self, patches: np.ndarray) -> npt.ArrayLike:
        """Takes uint8 or float32 [N, S, S, 1], N ≥ 1; gives float32 [N, D] or uint8 [N, bits / 8].

        What it gives may still be on its way from a GPU until it is turned into an array.
        """

    def weights_sha256(self) -> str:
        """Identifies the weights in results."""


class Descriptor:
    """A descriptor network as a function from patches to descriptors, in NumPy.

    Args:
        network: A Keras network, or another backend that runs one.

    Example:
        >>> descriptor = Descriptor(DescriptorNetwork())
        >>> descriptor.describe(np.zeros([7, 65, 65], "uint8")).shape
        (7, 128)
    """

    def __init__(self, network: DescriptorNetwork | Backend):
        self._backend: Backend = (
            KerasBackend(network) if isinstance(network, DescriptorNetwork) else network
        )

    @property
    def network(self) -> DescriptorNetwork | None:
        """The Keras model, or None where something else runs the network."""
        return getattr(self._backend, "network", None)

    @property
    def input_size(self) -> int:
        """Side of the patches that the network takes; cutting them at this size saves resizing."""
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
        """Half the side of a patch over the radius of its keypoint, as trained for."""
        return self._backend.magnification

    @property
    def weights_sha256(self) -> str:
        """Identifies the weights in results."""
        return self._backend.weights_sha256()

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches.

        Args:
            patches: uint8 or float, [N, H, W] or [N, H, W, 1], H = W ≥ 16, of any scale up to
                1e15. Patches of another size than `input_size` are resized with anti-aliasing.
            batch_size: How many patches run through the network at a time.

        Returns:
            float32 [N, D], rows of unit length; of a binary network uint8 [N, bits / 8], bits in
            the order of `numpy.packbits`.
        """
        patches = checked_patches(patches)
        if not (isinstance(batch_size, int | np.integer) and batch_size >= 1):
            raise InputError(f"batch_size must be a positive integer, not {batch_size!r}.")
        width, dtype = (
            (self.dimension // 8, np.uint8) if self.binary else (self.dimension, np.float32)
        )
        descriptors = np.empty([len(patches), width], dtype)
        starts = range(0, len(patches), batch_size)
        results = (self._infer(patches[start : start + batch_size]) for start in starts)
        # A result is fetched when the next one is under way, so that a GPU need not wait.
        pairs = itertools.pairwise(itertools.chain(results, [()]))
        for start, (result, _) in zip(starts, pairs, strict=True):
            descriptors[start : start + batch_size] = result
        return descriptors

    def _infer(self, patches: np.ndarray) -> npt.ArrayLike:
        if patches.shape[1] != self.input_size:
            patches = resize_patches(patches, self.input_size).numpy()
        if patches.dtype != np.uint8:
            patches = patches.astype(np.float32, copy=False)
        return self._backend.infer(patches)


def checked_patches(patches: np.ndarray) -> np.ndarray:
    """Gives patches that can be described as [N, H, H, 1]; raises an InputError for others."""
    try:
        patches = np.asarray(patches)
    except ValueError as error:
        raise InputError(f"patches must be an array: {error}.") from error
    if patches.ndim == 3:
        patches = patches[..., np.newaxis]
    shape = patches.shape
    if len(shape) != 4 or shape[3] != 1:
        raise InputError(
            f"patches must have the shape [N, H, W] or [N, H, W, 1], not {list(shape)}."
        )
    if shape[1] != shape[2] or shape[1] < _SMALLEST_PATCH:
        raise InputError(
            f"patches must be square and at least {_SMALLEST_PATCH} pixels wide, "
            f"not {shape[1]} high and {shape[2]} wide."
        )
    if not (np.issubdtype(patches.dtype, np.integer) or np.issubdtype(patches.dtype, np.floating)):
        raise InputError(f"patches must be uint8 or float, not {patches.dtype}.")
    if np.issubdtype(patches.dtype, np.floating):
        extremes = np.array([patches.min(axis=(1, 2, 3)), patches.max(axis=(1, 2, 3))], np.float64)
        sound = (np.abs(extremes) <= _LARGEST_VALUE).all(axis=0)
        if not sound.all():  # NaN is never sound
            raise InputError(
                f"patches must be finite and within ±{_LARGEST_VALUE:g}; patch "
                f"{int(np.argmin(sound))} holds NaN, infinity or more."
            )
    return patches
