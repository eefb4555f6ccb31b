"""What makes the features of an image: of patches, by a network of whole images, or by OpenCV."""

from typing import Any, Protocol

import numpy as np

from doap_tf.matching.image_features import Features
from doap_tf.readers.images import ImageLike


class Extractor(Protocol):
    """Detects and describes: `DescriptorExtractor`, `OpenCVExtractor`, or a class of your own.

    An extractor that detects before it describes may have `detect_frames(image)`, as
    `DescriptorExtractor` has: a collection then detects in one image while it describes another.
    One whose descriptors follow turns of the image should have `upright = False`: its pairs are not
    matched again with turned images.
    """

    @property
    def name(self) -> str:
        """Identifies it, with the settings, in stores and reports."""

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`, by which its descriptors are compared."""

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """Detects and describes in an image that `as_grey` takes, where a mask is not 0."""

    def describe(
        self, image: ImageLike, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Describes given affine frames [N, 2, 3], in order; without responses they are zero."""

    def settings(self) -> dict[str, Any]:
        """Returns all that the features depend on, for JSON."""
