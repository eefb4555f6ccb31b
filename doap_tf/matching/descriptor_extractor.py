"""Detecting and describing the features of an image, with the interface of `cv2.Feature2D`."""

import copy
import os
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.catalogue import DEFAULT_DESCRIPTOR, DEFAULT_DETECTOR, registered
from doap_tf.descriptors import FrameDescriptor
from doap_tf.descriptors.opencv_sift import SiftDescriptor
from doap_tf.descriptors.pooled_descriptor import PooledDescriptor
from doap_tf.errors import InputError, is_out_of_memory
from doap_tf.features.dense_detector import DenseDetector
from doap_tf.features.detectors import (
    Detections,
    Detector,
    check_detector,
    check_mask,
    detect,
    detects_circles,
    opened,
)
from doap_tf.features.frames import as_frames, compose
from doap_tf.matching.component_settings import component_settings
from doap_tf.matching.dense_extractor import DenseExtractor
from doap_tf.matching.feature2d import Feature2D
from doap_tf.matching.image_features import Features
from doap_tf.matching.opencv_copies import HoldsAlgorithms
from doap_tf.matching.opencv_extractor import opencv_keypoints
from doap_tf.readers.images import ImageLike, as_grey, resizing_map, shrink
from doap_tf.zoo import from_pretrained, load_descriptor
from doap_tf.zoo.loading import DENSE, network_of_images

MAX_KEYPOINTS = 8192  # by default


class DescriptorExtractor(HoldsAlgorithms, Feature2D):
    """An `Extractor` that describes patches at keypoints; takes the place of a `cv2.Feature2D`.

    Args:
        descriptor: A name or path for `doap_tf.from_pretrained`, a `doap_tf.Descriptor`, or any
            `PatchDescriptor`. `"sift"` and `"rootsift"` are OpenCV's own wherever frames are
            circles and no magnification is given; otherwise they describe the same patches as a
            network would, as all names of `doap_tf.descriptors.HANDCRAFTED` do. By the name or path
            of a network of whole images, which finds keypoints of its own, the extractor is a
            `DenseExtractor`.
        detector: One of `doap_tf.features.DETECTORS`; the name of a network of whole images, whose
            keypoints patches are then cut at; the path of either kind of network, a `.tflite` file
            or a training directory with one; or an object with `detect(image, mask)`: a
            `cv2.Feature2D` or a class of your own, see `doap_tf.features.Detector`. It also
            determines how `compute` reads `KeyPoint.size`, whose meaning differs between OpenCV's
            detectors; for all others it is twice the radius.
        max_keypoints: Keep this many of the strongest keypoints; None or 0 for all.
        magnification: Half the side of a patch over the frame's radius, if not the one that the
            descriptor was trained for. With several, such as `(8, 28)`, each feature is described
            at all of them, at their cost, and its descriptors are pooled: see `PooledDescriptor`.
        oriented: Whether detected keypoints follow the dominant gradient or stand upright.
        batch_size: Number of patches that run through the network at a time.
        max_image_size: Images whose longer side has more pixels are shrunk to it, to detect and to
            describe in; frames are in pixels of the original all the same. None or 0: never.

    Example:
        >>> extractor = doap_tf.DescriptorExtractor("doap-128")
        >>> keypoints, descriptors = extractor.detectAndCompute("a.jpg")
        >>> matcher = cv2.BFMatcher(extractor.defaultNorm(), crossCheck=True)
    """

    def __new__(cls, descriptor: Any = DEFAULT_DESCRIPTOR, *args: Any, **kwargs: Any) -> Any:
        named = isinstance(descriptor, str | os.PathLike)
        if cls is DescriptorExtractor and named and network_of_images(descriptor) == DENSE:
            return _dense_extractor(descriptor, *args, **kwargs)
        return super().__new__(cls)

    def __init__(
        self,
        descriptor: Any = DEFAULT_DESCRIPTOR,
        detector: str | os.PathLike | Detector = DEFAULT_DETECTOR,
        max_keypoints: int | None = MAX_KEYPOINTS,
        magnification: float | Sequence[float] | None = None,
        oriented: bool = True,
        batch_size: int = 1024,
        max_image_size: int | None = None,
    ):
        self._finder = _opened(detector)
        check_detector(self._finder)
        for name, number in (("max_keypoints", max_keypoints), ("max_image_size", max_image_size)):
            if number is not None and number < 0:
                raise InputError(f"{name} must not be negative, but is {number}.")
        self.name = _name_of(descriptor)
        self._descriptor = descriptor
        self.detector = detector
        self.max_keypoints = max_keypoints or None
        self.oriented = oriented
        self.upright = not oriented
        self.max_image_size = max_image_size or None
        self.frame_descriptor: FrameDescriptor
        # OpenCV's own SIFT has a fixed extent and describes no ellipses: patches serve for others.
        named = self.name in ("sift", "rootsift")
        if named and magnification is None and detects_circles(self._finder):
            self.frame_descriptor = SiftDescriptor(root=self.name == "rootsift")
        else:
            self.frame_descriptor = PooledDescriptor(
                load_descriptor(descriptor), magnification, batch_size
            )

    def __repr__(self) -> str:
        return (
            f"DescriptorExtractor({self.name}, detector={_name_of(self.detector)}, "
            f"max_keypoints={self.max_keypoints})"
        )

    def following(self) -> "DescriptorExtractor":
        """The same extractor, whose keypoints follow the dominant gradient."""
        extractor = copy.copy(self)
        extractor.oriented, extractor.upright = True, False
        return extractor

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """Detects and describes; keeps affine frames, which `cv2.KeyPoint`s cannot hold.

        Args:
            image: Anything that `doap_tf.readers.images.as_grey` takes.
            mask: uint8 [H, W]; nothing is detected where it is zero.
        """
        grey = as_grey(image)
        try:
            return self._features(grey, *self.detect_frames(grey, mask))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            height, width = grey.shape
            raise InputError(
                f"an image of {width} × {height} pixels needs more memory than there is: make it "
                "smaller, or detect with fast or orb, which need far less."
            ) from error

    def detect_frames(self, image: ImageLike, mask: np.ndarray | None = None) -> Detections:
        """Detects only: affine frames [N, 2, 3] and their responses, strongest first."""
        whole = as_grey(image)
        grey, shrinking = self._shrunk(whole)
        if shrinking is not None and mask is not None:
            check_mask(mask, whole)
            mask = cv2.resize(
                (np.asarray(mask) != 0).astype(np.uint8),
                grey.shape[::-1],
                interpolation=cv2.INTER_NEAREST,
            )
        detections = detect(grey, self._finder, self.max_keypoints, self.oriented, mask)
        if shrinking is None:
            return detections
        enlarging = cv2.invertAffineTransform(shrinking)
        return detections._replace(frames=compose(enlarging, detections.frames))

    def describe(
        self, image: ImageLike, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Describes given affine frames [N, 2, 3], in order; without responses they are zero."""
        frames = as_frames(frames)
        if responses is None:
            responses = np.zeros(len(frames), np.float32)
        return self._features(as_grey(image), frames, responses)

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""
        return self.frame_descriptor.norm

    @property
    def dimension(self) -> int:
        """Number of values or bits of a descriptor."""
        return self.frame_descriptor.dimension

    def detect(self, image: ImageLike, mask: np.ndarray | None = None) -> list[cv2.KeyPoint]:
        """Detects only; `KeyPoint.size` is as OpenCV's own detector sets it."""
        image = as_grey(image)
        frames, responses = self.detect_frames(image, mask)
        return opencv_keypoints(self.detector, frames, image.shape, responses)

    def settings(self) -> dict[str, Any]:
        """Returns what the features depend on, for JSON; see `component_settings` for objects."""
        described = getattr(self.frame_descriptor, "descriptor", None)
        detector = opened(self._finder)
        sha256 = getattr(detector, "weights_sha256", None)
        settings: dict[str, Any] = {
            "descriptor": self.name,
            "weights_sha256": getattr(described, "weights_sha256", None),
            "backend": getattr(described, "backend", None),
            "precision": getattr(described, "precision", None),
            "magnification": getattr(self.frame_descriptor, "magnification", None),
            "detector": _name_of(self.detector),
            **({"detector_sha256": sha256} if sha256 else {}),
            "max_keypoints": self.max_keypoints,
            "oriented": self.oriented,
            **({"max_image_size": self.max_image_size} if self.max_image_size else {}),
        }
        descriptor = registered(self._descriptor, "descriptor")
        for kind, component in (("descriptor", descriptor), ("detector", detector)):
            named = isinstance(component, str | os.PathLike)
            if not named and (own := component_settings(component)):
                settings[f"{kind}_settings"] = own
        return settings

    def _features(self, image: np.ndarray, frames: np.ndarray, responses: np.ndarray) -> Features:
        height, width = image.shape
        shrunk, shrinking = self._shrunk(image)
        inner = frames if shrinking is None else compose(shrinking, frames)
        rows = self.frame_descriptor.describe_frames(shrunk, inner)
        return Features(frames, responses, rows, self.norm, (width, height))

    def _shrunk(self, image: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """The image within `max_image_size`, and the affine map [2, 3] to it if it is smaller."""
        shrunk = shrink(image, self.max_image_size)
        return shrunk, None if shrunk is image else resizing_map(image.shape, shrunk.shape)


def _dense_extractor(
    model: str | os.PathLike,
    detector: Any = DEFAULT_DETECTOR,
    max_keypoints: int | None = MAX_KEYPOINTS,
    magnification: Any = None,
    oriented: bool = True,
    batch_size: int = 1024,
    max_image_size: int | None = None,
) -> DenseExtractor:
    del oriented, batch_size  # networks of whole images are upright
    if detector != DEFAULT_DETECTOR or magnification is not None:
        raise InputError(
            f"{model} describes keypoints of its own: give neither a detector nor a magnification."
        )
    return DenseExtractor(model, max_keypoints, max_image_size)


def _opened(detector: str | os.PathLike | Detector) -> str | os.PathLike | Detector:
    if isinstance(detector, str | os.PathLike) and network_of_images(detector) == DENSE:
        return DenseDetector(from_pretrained(detector))
    return detector


def _name_of(component: Any) -> str:
    return str(component) if isinstance(component, str | os.PathLike) else type(component).__name__
