"""Descriptors of patches: networks on three runtimes, SIFT and other handcrafted ones.

`doap_tf.zoo.load_descriptor` returns any of them by name or path. Handcrafted descriptors do not
import TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
