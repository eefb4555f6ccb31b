"""HPatches and the read instructions of its benchmark."""

from doap_tf.datasets.hpatches.splits import read_instruction
from doap_tf.readers.hpatches_splits import split_sequences

__all__ = ["read_instruction", "split_sequences"]
