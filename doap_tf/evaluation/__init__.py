"""Benchmarks of descriptors and of whole pipelines: scores, comparison tables and reports."""

from doap_tf.evaluation.hpatches import HPatches, PatchSequences, photo_sequences
from doap_tf.evaluation.image_model import ImageModel, load_image_models
from doap_tf.evaluation.model import Model, load_model, load_models
from doap_tf.evaluation.oxford import Oxford
from doap_tf.evaluation.pose import Pose
from doap_tf.evaluation.report import comparison_tables, heading, protocols, write_report
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.rome import Rome
from doap_tf.evaluation.ubc import UBC

__all__ = [
    "UBC",
    "HPatches",
    "ImageModel",
    "Model",
    "Oxford",
    "PatchSequences",
    "Pose",
    "Result",
    "Rome",
    "comparison_tables",
    "heading",
    "load_image_models",
    "load_model",
    "load_models",
    "photo_sequences",
    "protocols",
    "write_report",
]
