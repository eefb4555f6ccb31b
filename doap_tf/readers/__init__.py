"""Readers of the benchmarks' original files and of images, as NumPy arrays."""

from doap_tf.readers.image_sequences import list_image_sequences, read_image_sequence
from doap_tf.readers.mosaics import read_pairs, read_patches
from doap_tf.readers.rome_patches import read_rome_half
from doap_tf.readers.strips import STRIPS, list_patch_sequences, read_strip

__all__ = [
    "STRIPS",
    "list_image_sequences",
    "list_patch_sequences",
    "read_image_sequence",
    "read_pairs",
    "read_patches",
    "read_rome_half",
    "read_strip",
]
