"""Readers of the benchmarks' original files: NumPy and OpenCV only."""

from doap_tf.readers.image_sequences import (
    ImageSequence,
    list_image_sequences,
    read_homography,
    read_image_sequence,
)
from doap_tf.readers.images import as_colour, as_grey, read_grey, read_image, read_rgb
from doap_tf.readers.mosaics import (
    PatchPairs,
    PointGroup,
    iterate_groups,
    list_mosaics,
    read_mosaic,
    read_pairs,
    read_patches,
    read_point_ids,
)
from doap_tf.readers.rome_patches import read_rome_half
from doap_tf.readers.strips import STRIPS, list_patch_sequences, read_patch_sequence, read_strip

__all__ = [
    "STRIPS",
    "ImageSequence",
    "PatchPairs",
    "PointGroup",
    "as_colour",
    "as_grey",
    "iterate_groups",
    "list_image_sequences",
    "list_mosaics",
    "list_patch_sequences",
    "read_grey",
    "read_homography",
    "read_image",
    "read_image_sequence",
    "read_mosaic",
    "read_pairs",
    "read_patch_sequence",
    "read_patches",
    "read_point_ids",
    "read_rgb",
    "read_rome_half",
    "read_strip",
]
