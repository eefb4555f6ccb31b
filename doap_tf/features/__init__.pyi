from .affine_shape import adapt_shape as adapt_shape
from .cutting import Pyramid as Pyramid, cut_patches as cut_patches
from .detectors import (
    DETECTORS as DETECTORS,
    RADIUS_PER_SIZE as RADIUS_PER_SIZE,
    Detections as Detections,
    Detector as Detector,
    detect as detect,
)
from .frames import (
    angles as angles,
    as_frames as as_frames,
    compose as compose,
    frames_from_keypoints as frames_from_keypoints,
    inside as inside,
    keypoints_from_frames as keypoints_from_frames,
    radii as radii,
    scale_frames as scale_frames,
    semi_axes as semi_axes,
    similarity_frames as similarity_frames,
    transform_frames as transform_frames,
    transform_points as transform_points,
)
from .learned import LearnedDetector as LearnedDetector
from .orientation import orient as orient
from .overlap import (
    ellipse_overlap as ellipse_overlap,
    overlapping_pairs as overlapping_pairs,
    thin as thin,
)
from .scale_space import Points as Points
