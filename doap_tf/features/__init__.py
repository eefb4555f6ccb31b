"""Geometry of local features: affine frames, detectors, shape, orientation, cutting patches.

What needs OpenCV is imported on first use: training and export do without.
"""

from typing import TYPE_CHECKING

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
from doap_tf.features.overlap import ellipse_overlap, overlapping_pairs, thin
from doap_tf.lazy import lazy_names

if TYPE_CHECKING:
    from doap_tf.features.affine_shape import adapt_shape
    from doap_tf.features.cutting import Pyramid, cut_patches
    from doap_tf.features.detectors import (
        DETECTORS,
        RADIUS_PER_SIZE,
        Detections,
        Detector,
        detect,
    )
    from doap_tf.features.learned import LearnedDetector
    from doap_tf.features.orientation import orient
    from doap_tf.features.scale_space import Points

__all__ = [
    "DETECTORS",
    "RADIUS_PER_SIZE",
    "Detections",
    "Detector",
    "LearnedDetector",
    "Points",
    "Pyramid",
    "adapt_shape",
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Pyramid": "doap_tf.features.cutting",
        "cut_patches": "doap_tf.features.cutting",
        "adapt_shape": "doap_tf.features.affine_shape",
        "LearnedDetector": "doap_tf.features.learned",
        "Points": "doap_tf.features.scale_space",
        "orient": "doap_tf.features.orientation",
        **dict.fromkeys(
            ("DETECTORS", "RADIUS_PER_SIZE", "Detections", "Detector", "detect"),
            "doap_tf.features.detectors",
        ),
    },
)
