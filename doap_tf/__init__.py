"""Local image descriptors optimised for Average Precision (DOAP), in TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any

from doap_tf.version import __version__

if TYPE_CHECKING:
    from doap_tf.descriptor import Descriptor
    from doap_tf.matching import DescriptorExtractor, match_images
    from doap_tf.pretrained.registry import from_pretrained, list_pretrained

__all__ = [
    "Descriptor",
    "DescriptorExtractor",
    "__version__",
    "from_pretrained",
    "list_pretrained",
    "match_images",
]

# Resolved on first use, so that training from a prepared cache needs neither OpenCV nor TFDS.
_HOMES = {
    "Descriptor": "doap_tf.descriptor",
    "DescriptorExtractor": "doap_tf.matching",
    "from_pretrained": "doap_tf.pretrained.registry",
    "list_pretrained": "doap_tf.pretrained.registry",
    "match_images": "doap_tf.matching",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'doap_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
