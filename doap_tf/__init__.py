"""Local image descriptors optimised for Average Precision (DOAP), in TensorFlow."""

import importlib
from typing import TYPE_CHECKING, Any

from doap_tf.version import __version__

if TYPE_CHECKING:
    from doap_tf.descriptor import Descriptor
    from doap_tf.pretrained.registry import from_pretrained, list_pretrained

__all__ = ["Descriptor", "__version__", "from_pretrained", "list_pretrained"]

# Resolved on first use, so that training from a prepared cache needs neither OpenCV nor TFDS.
_HOMES = {
    "Descriptor": "doap_tf.descriptor",
    "from_pretrained": "doap_tf.pretrained.registry",
    "list_pretrained": "doap_tf.pretrained.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'doap_tf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
