"""Networks by name or path: those that ship, files, runs, and what others register.

TensorFlow is imported only where Keras or a SavedModel is asked for.
"""

from doap_tf.catalogue import KINDS, list_pretrained, register
from doap_tf.zoo.loading import from_pretrained, load_descriptor, load_keras

__all__ = [
    "KINDS",
    "from_pretrained",
    "list_pretrained",
    "load_descriptor",
    "load_keras",
    "register",
]
