"""A cache of descriptors on disk, keyed by the content of patches and model."""

import hashlib
import os
import pathlib
from collections.abc import Callable

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.model import Model
from doap_tf.files import write_atomically
from doap_tf.metrics.distances import NORM_HAMMING, checked_descriptors


class DescriptorCache:
    """Describes sets of patches with one model, each set once.

    Args:
        folder: Folder of the cache.
        model: The model.
    """

    def __init__(self, folder: str | os.PathLike, model: Model):
        self._folder = pathlib.Path(folder)
        self.model = model

    def describe(self, content: str, read: Callable[[], np.ndarray], name: str) -> np.ndarray:
        """Returns the descriptors of a set of patches, memory-mapped.

        Args:
            content: A hash of the patches, by `contents_sha256` or `array_hash`.
            read: Returns the patches uint8 [N, H, W]; called only if they are not in the cache.
            name: Name of the set in errors.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8].
        """
        key = hashlib.sha256(f"{self.model.identity} {content}".encode()).hexdigest()
        path = self._folder / key[:2] / f"{key}.npy"
        try:
            return np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError):
            pass  # absent or damaged
        patches = read()
        descriptors = self._checked(self.model.descriptor.describe(patches), len(patches), name)
        if not descriptors.size:
            return descriptors  # nothing to map
        try:
            with write_atomically(path) as partial, partial.open("wb") as file:
                np.save(file, descriptors)
        except OSError as error:
            raise InputError(f"{path} cannot be written: {error.strerror or error}.") from error
        return np.load(path, mmap_mode="r")

    def describe_array(self, patches: np.ndarray, name: str) -> np.ndarray:
        """Returns the descriptors of patches uint8 [N, H, W] in memory."""
        return self.describe(array_hash(patches), lambda: patches, name)

    def _checked(self, descriptors: np.ndarray, count: int, name: str) -> np.ndarray:
        descriptor = self.model.descriptor
        title = f"descriptors of {name} by {self.model.name}"
        descriptors = checked_descriptors(descriptors, descriptor.norm, title)
        binary = descriptor.norm == NORM_HAMMING
        expected = (count, -(-descriptor.dimension // 8) if binary else descriptor.dimension)
        if descriptors.shape != expected:
            raise InputError(
                f"{title} must have the shape {list(expected)}, not {list(descriptors.shape)}."
            )
        return descriptors if binary else descriptors.astype(np.float32, copy=False)


def array_hash(array: np.ndarray) -> str:
    """Returns a hash of the type, shape and values of an array."""
    digest = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
