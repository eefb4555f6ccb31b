"""The paper's benchmarks: scores of descriptors, comparison tables and reports."""

from doap_tf.evaluation.hpatches import HPatches, PatchSequences, photo_sequences
from doap_tf.evaluation.model import Model, load_model, load_models
from doap_tf.evaluation.oxford import Oxford
from doap_tf.evaluation.report import comparison_tables, protocols, write_report
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.rome import Rome
from doap_tf.evaluation.ubc import UBC

__all__ = [
    "UBC",
    "HPatches",
    "Model",
    "Oxford",
    "PatchSequences",
    "Result",
    "Rome",
    "comparison_tables",
    "load_model",
    "load_models",
    "photo_sequences",
    "protocols",
    "write_report",
]
