"""Matching images: detect, describe, match, verify, draw; many images for COLMAP and hloc.

What needs Matplotlib, Pillow or h5py is imported on first use: matching does without.
"""

from typing import TYPE_CHECKING

from doap_tf.lazy import lazy_names
from doap_tf.matching.cameras import CAMERA_MODELS, CAMERA_SHARING, Cameras
from doap_tf.matching.collection import find_images
from doap_tf.matching.colmap_database import write_colmap
from doap_tf.matching.descriptor_extractor import MAX_KEYPOINTS, DescriptorExtractor
from doap_tf.matching.extractor import Extractor
from doap_tf.matching.image_features import Features
from doap_tf.matching.image_matching import match_features, match_images
from doap_tf.matching.match_files import MATCH_FILE_SUFFIXES, write_matches
from doap_tf.matching.match_store import MatchStore
from doap_tf.matching.matcher import Matcher, Matches
from doap_tf.matching.nearest_neighbours import METHODS, NearestNeighbours, match_descriptors
from doap_tf.matching.opencv_extractor import OpenCVExtractor
from doap_tf.matching.pair_selection import exhaustive_pairs, read_pairs, sequential_pairs
from doap_tf.matching.pipeline import Outcome, Pipeline, all_settings
from doap_tf.matching.verifier import ESTIMATORS, GEOMETRIES, PairMatches, Verification, Verifier
from doap_tf.readers.images import as_grey, read_image

if TYPE_CHECKING:
    from doap_tf.drawing.matches import draw_frames, draw_matches
    from doap_tf.matching.collection_page import write_collection_page
    from doap_tf.matching.hloc_files import check_pair_names, write_hloc

__all__ = [
    "CAMERA_MODELS",
    "CAMERA_SHARING",
    "ESTIMATORS",
    "GEOMETRIES",
    "MATCH_FILE_SUFFIXES",
    "MAX_KEYPOINTS",
    "METHODS",
    "Cameras",
    "DescriptorExtractor",
    "Extractor",
    "Features",
    "MatchStore",
    "Matcher",
    "Matches",
    "NearestNeighbours",
    "OpenCVExtractor",
    "Outcome",
    "PairMatches",
    "Pipeline",
    "Verification",
    "Verifier",
    "all_settings",
    "as_grey",
    "check_pair_names",
    "draw_frames",
    "draw_matches",
    "exhaustive_pairs",
    "find_images",
    "match_descriptors",
    "match_features",
    "match_images",
    "read_image",
    "read_pairs",
    "sequential_pairs",
    "write_collection_page",
    "write_colmap",
    "write_hloc",
    "write_matches",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "check_pair_names": "doap_tf.matching.hloc_files",
        "draw_frames": "doap_tf.drawing.matches",
        "draw_matches": "doap_tf.drawing.matches",
        "write_collection_page": "doap_tf.matching.collection_page",
        "write_hloc": "doap_tf.matching.hloc_files",
    },
)
