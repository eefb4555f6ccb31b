from .image_sequences import (
    list_image_sequences as list_image_sequences,
    read_image_sequence as read_image_sequence,
)
from .mosaics import read_pairs as read_pairs, read_patches as read_patches
from .rome_patches import read_rome_half as read_rome_half
from .strips import (
    STRIPS as STRIPS,
    list_patch_sequences as list_patch_sequences,
    read_strip as read_strip,
)
