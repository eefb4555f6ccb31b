"""Descriptors of patches: networks on three runtimes, SIFT and other handcrafted ones.

`load` returns any of them by name or path. Handcrafted descriptors do not import TensorFlow.
"""

from typing import TYPE_CHECKING

from doap_tf.descriptors.handcrafted import HANDCRAFTED, HandcraftedDescriptor
from doap_tf.descriptors.protocol import FrameDescriptor, PatchDescriptor
from doap_tf.descriptors.registry import from_pretrained, list_pretrained, load
from doap_tf.lazy import lazy_names

if TYPE_CHECKING:
    from doap_tf.descriptors.descriptor import Backend, Descriptor

__all__ = [
    "HANDCRAFTED",
    "Backend",
    "Descriptor",
    "FrameDescriptor",
    "HandcraftedDescriptor",
    "PatchDescriptor",
    "from_pretrained",
    "list_pretrained",
    "load",
]

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(("Backend", "Descriptor"), "doap_tf.descriptors.descriptor")
)
