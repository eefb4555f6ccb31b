"""Training patches cut from photographs, webcam images and image sequences."""

from doap_tf.patch_generation.groups import Groups, GroupSettings, cut_groups, generate_groups
from doap_tf.patch_generation.scenes import (
    KINDS,
    Scene,
    default_scenes,
    find_scenes,
    split_scenes,
)
from doap_tf.patch_generation.strip_writer import write_strips

__all__ = [
    "KINDS",
    "GroupSettings",
    "Groups",
    "Scene",
    "cut_groups",
    "default_scenes",
    "find_scenes",
    "generate_groups",
    "split_scenes",
    "write_strips",
]
