"""Descriptors of all patches of a folder of sequences, on disk, by sequence and strip."""

from collections.abc import Iterable

import numpy as np
import tqdm

from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches.normalisation import Normalisation
from doap_tf.evaluation.hpatches.patch_sequences import PatchSequences
from doap_tf.metrics import NORM_L2
from doap_tf.readers import STRIPS


class StripDescriptors:
    """Describes every strip that an evaluation needs, then gives them one at a time.

    Args:
        sequences: The folder.
        cache: Describes and keeps.
        normalise: Whether to apply `Normalisation`, learnt on the split's training sequences.
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
            self._normalisation = Normalisation(self.load(*place) for place in training)

    def load(self, sequence: str, strip: str) -> np.ndarray:
        """float32 [N, D], or packed bits uint8 [N, bits / 8]."""
        descriptors = self._cache.describe(
            self.sequences.content(sequence, strip),
            lambda: self.sequences.patches(sequence, strip),
            f"{sequence}/{strip}.png",
        )
        return descriptors if self._normalisation is None else self._normalisation(descriptors)

    def _describe(self, places: Iterable[tuple[str, str]]) -> None:
        for sequence, strip in tqdm.tqdm(
            list(places), f"describing ({self._cache.model.name})", unit="strip", disable=None
        ):
            self.load(sequence, strip)
