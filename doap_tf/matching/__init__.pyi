from .cameras import (
    CAMERA_MODELS as CAMERA_MODELS,
    CAMERA_SHARING as CAMERA_SHARING,
    Cameras as Cameras,
)
from .collection import find_images as find_images
from .collection_page import write_collection_page as write_collection_page
from .colmap_database import write_colmap as write_colmap
from .dense_extractor import DenseExtractor as DenseExtractor
from .descriptor_extractor import (
    MAX_KEYPOINTS as MAX_KEYPOINTS,
    DescriptorExtractor as DescriptorExtractor,
)
from .extractor import Extractor as Extractor
from .geometry_estimation import ESTIMATORS as ESTIMATORS, GEOMETRIES as GEOMETRIES
from .hloc_files import check_pair_names as check_pair_names, write_hloc as write_hloc
from .image_features import Features as Features
from .image_matching import (
    ROTATIONS as ROTATIONS,
    match_features as match_features,
    match_images as match_images,
    match_turned as match_turned,
)
from .match_files import MATCH_FILE_SUFFIXES as MATCH_FILE_SUFFIXES, write_matches as write_matches
from .match_store import MatchStore as MatchStore
from .matcher import Matcher as Matcher, Matches as Matches
from .nearest_neighbours import (
    METHODS as METHODS,
    NearestNeighbours as NearestNeighbours,
    match_descriptors as match_descriptors,
)
from .opencv_extractor import OpenCVExtractor as OpenCVExtractor
from .pair_selection import (
    exhaustive_pairs as exhaustive_pairs,
    read_pairs as read_pairs,
    sequential_pairs as sequential_pairs,
)
from .pipeline import (
    Outcome as Outcome,
    Pipeline as Pipeline,
    all_settings as all_settings,
    pair_record as pair_record,
)
from .verdict import (
    evidence as evidence,
    has_parallax as has_parallax,
)
from .verifier import (
    PairMatches as PairMatches,
    Verification as Verification,
    Verifier as Verifier,
)
