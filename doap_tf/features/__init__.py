"""Local features: frames, detectors and cutting patches.

The groups of patches that photographs give are in `doap_tf.patch_generation.groups`.
"""

from doap_tf.features.cutting import Pyramid, cut_patches
from doap_tf.features.detectors import DETECTORS, RADIUS_PER_SIZE, Detections, detect
from doap_tf.features.frames import (
    angles,
    as_frames,
    compose,
    frames_from_keypoints,
    inside,
    keypoints_from_frames,
    radii,
    scale_frames,
    semi_axes,
    similarity_frames,
    transform_frames,
    transform_points,
)
from doap_tf.features.orientation import orient
from doap_tf.features.overlap import ellipse_overlap, overlapping_pairs, thin

__all__ = [
    "DETECTORS",
    "RADIUS_PER_SIZE",
    "Detections",
    "Pyramid",
    "angles",
    "as_frames",
    "compose",
    "cut_patches",
    "detect",
    "ellipse_overlap",
    "frames_from_keypoints",
    "inside",
    "keypoints_from_frames",
    "orient",
    "overlapping_pairs",
    "radii",
    "scale_frames",
    "semi_axes",
    "similarity_frames",
    "thin",
    "transform_frames",
    "transform_points",
]
