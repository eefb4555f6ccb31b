"""The HPatches benchmark, on its own patches or on patches cut from other images."""

from doap_tf.evaluation.hpatches.benchmark import HPatches
from doap_tf.evaluation.hpatches.patch_sequences import LEVELS, PatchSequences
from doap_tf.evaluation.hpatches.photos import photo_sequences

__all__ = ["LEVELS", "HPatches", "PatchSequences", "photo_sequences"]
