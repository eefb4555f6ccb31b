"""Local image descriptors optimised for Average Precision (DOAP), in TensorFlow."""

from typing import TYPE_CHECKING

from doap_tf.lazy import lazy_names
from doap_tf.version import __version__

if TYPE_CHECKING:
    from doap_tf.descriptors.descriptor import Descriptor
    from doap_tf.descriptors.registry import from_pretrained, list_pretrained
    from doap_tf.matching import DescriptorExtractor, match_images

__all__ = [
    "Descriptor",
    "DescriptorExtractor",
    "__version__",
    "from_pretrained",
    "list_pretrained",
    "match_images",
]

# Training from a folder of patch groups needs neither OpenCV nor TFDS.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Descriptor": "doap_tf.descriptors.descriptor",
        "DescriptorExtractor": "doap_tf.matching",
        "from_pretrained": "doap_tf.descriptors.registry",
        "list_pretrained": "doap_tf.descriptors.registry",
        "match_images": "doap_tf.matching",
    },
)
