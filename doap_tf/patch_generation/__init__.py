"""Training patches and pairs of views, cut from photographs, webcam images and sequences."""

from doap_tf.patch_generation.groups import (
    Groups,
    GroupSettings,
    cut_groups,
    generate_groups,
    sample_groups,
)
from doap_tf.patch_generation.scenes import (
    KINDS,
    Scene,
    default_scenes,
    find_scenes,
    split_scenes,
)
from doap_tf.patch_generation.strip_writer import write_strips
from doap_tf.patch_generation.view_pairs import ViewPairs, Views

__all__ = [
    "KINDS",
    "GroupSettings",
    "Groups",
    "Scene",
    "ViewPairs",
    "Views",
    "cut_groups",
    "default_scenes",
    "find_scenes",
    "generate_groups",
    "sample_groups",
    "split_scenes",
    "write_strips",
]
