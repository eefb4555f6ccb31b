"""Descriptors of the patches of HPatches sequences, on disk by sequence and strip."""

from collections.abc import Iterable

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches.normalisation import Normalisation
from doap_tf.evaluation.hpatches.patch_sequences import PatchSequences
from doap_tf.metrics import NORM_L2
from doap_tf.progress import progress
from doap_tf.readers import STRIPS


class StripDescriptors:
    """Describes every strip that an evaluation needs, then loads them one at a time.

    Args:
        sequences: The sequences.
        cache: Describes the strips and keeps the descriptors.
        normalise: Whether to apply `Normalisation`, learnt on the training sequences of the split.
    """

    def __init__(self, sequences: PatchSequences, cache: DescriptorCache, normalise: bool = False):
        self.sequences = sequences
        self.norm = cache.model.descriptor.norm
        self._cache = cache
        self._normalisation: Normalisation | None = None
        if normalise and self.norm != NORM_L2:
            raise InputError(
                f"{cache.model.name} has binary descriptors, which cannot be normalised: packed "
                "bits have no mean or variance."
            )
        self._describe((name, strip) for name in sequences.lengths for strip in STRIPS)
        if normalise:
            training = [(name, "ref") for name in sequences.training]
            self._describe(training)
            self._normalisation = Normalisation(self.load(*strip) for strip in training)

    def load(self, sequence: str, strip: str) -> np.ndarray:
        """Returns descriptors float32 [N, D], or packed bits uint8 [N, bits / 8]."""
        descriptors = self._cache.describe(
            self.sequences.content(sequence, strip),
            lambda: self.sequences.patches(sequence, strip),
            f"{sequence}/{strip}.png",
        )
        return descriptors if self._normalisation is None else self._normalisation(descriptors)

    def gather(self, patches: np.ndarray, strip: str) -> np.ndarray:
        """Returns the descriptors [N, ·] of patches int [N, 2], sequence and index, in a strip."""
        names = list(self.sequences.lengths)
        sample = self.load(names[0], strip)
        rows = np.empty((len(patches), sample.shape[1]), sample.dtype)
        for sequence in np.unique(patches[:, 0]):
            members = patches[:, 0] == sequence
            rows[members] = self.load(names[sequence], strip)[patches[members, 1]]
        return rows

    def _describe(self, strips: Iterable[tuple[str, str]]) -> None:
        title = f"describing ({self._cache.model.name})"
        for sequence, strip in progress(list(strips), title, unit="strip"):
            self.load(sequence, strip)
