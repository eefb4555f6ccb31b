"""Detection, orientation and cutting inside TensorFlow graphs, for models that take whole images.

Each module is the twin of what `doap_tf.features` does with OpenCV and LiteRT, and reads its
constants from the same module. Only ordinary operations are used, so that any server runs them.
"""

from doap_tf.features.graph.cutting import GraphPyramid, cut_patches
from doap_tf.features.graph.dense_extractor import GraphDenseExtractor
from doap_tf.features.graph.detection import GraphDetector, GraphKeypoints, contrast_map
from doap_tf.features.graph.orientation import dominant_angles

__all__ = [
    "GraphDenseExtractor",
    "GraphDetector",
    "GraphKeypoints",
    "GraphPyramid",
    "contrast_map",
    "cut_patches",
    "dominant_angles",
]
