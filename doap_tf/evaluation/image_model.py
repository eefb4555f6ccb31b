"""Models of whole images under evaluation: what detects and describes, by name or path."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.catalogue import DEFAULT_DETECTOR, list_pretrained, registered
from doap_tf.errors import InputError
from doap_tf.evaluation import peers
from doap_tf.evaluation.enlarged_peer import EnlargedPeer
from doap_tf.evaluation.model import training_of
from doap_tf.evaluation.onnx_extractor import OnnxExtractor
from doap_tf.features.detectors import DETECTORS, Detections, detect
from doap_tf.matching import (
    DenseExtractor,
    DescriptorExtractor,
    Extractor,
    Features,
    OpenCVExtractor,
)
from doap_tf.readers.images import ImageLike, as_grey
from doap_tf.zoo.loading import DENSE, joined_names, network_of_images

UPRIGHT = "_upright"
_ENLARGED = "_enlarged"

_ALL = 100_000  # what must be told how many keypoints to look for


@dataclasses.dataclass(frozen=True)
class ImageModel:
    """What detects and describes.

    Attributes:
        name: Name in tables and of files.
        extractor: What detects and describes.
        training: What is known of the training of its parts, as for `Model`.
    """

    name: str
    extractor: Extractor
    training: dict[str, Any] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """All that the features depend on."""
        return self.extractor.settings()

    @property
    def weights_sha256(self) -> str | None:
        """Hash of the weights; None for what has none."""
        return self.settings.get("weights_sha256")

    @property
    def backend(self) -> str | None:
        """What runs the network; None for what is not one of ours."""
        return self.settings.get("backend")

    @property
    def precision(self) -> str | None:
        """What the network computes in; None for what is not one of ours."""
        return self.settings.get("precision")


def load_image_models(texts: Sequence[str], max_keypoints: int | None) -> list[ImageModel]:
    """Loads several models, each named by the ends of its paths, or in full if names agree."""
    names = [_short_name(text) for text in texts]
    if len(set(names)) < len(names):
        names = list(texts)
    if len(set(names)) < len(names):
        raise InputError(f"a model is named twice among {', '.join(texts)}.")
    return [
        ImageModel(name, load_extractor(text, max_keypoints), _training(text))
        for name, text in zip(names, texts, strict=True)
    ]


def load_extractor(text: str, max_keypoints: int | None) -> Extractor:
    """Loads what detects and describes.

    Args:
        text: One of

            - `DETECTOR:DESCRIPTOR`, such as `dog:rootsift` or `learned_upright:doap-128`, any
              detector and descriptor of `DescriptorExtractor`; `@14` or `@8+28` behind it sets
              magnifications. The descriptor may be a network of whole images, the detector a peer.
            - A descriptor alone, on the keypoints of `DescriptorExtractor`.
            - A network of whole images, `NETWORK+NETWORK` with one of patches, or a registered
              extractor.
            - A `cv2.Feature2D` by its name in OpenCV, such as `sift`, `orb` or `akaze`; `rootsift`.
            - A peer, `aliked=PATH`, `r2d2=PATH` or `xfeat=PATH`, the folder of its repository or an
              ONNX file; any other network as an ONNX file, see `OnnxExtractor`. `aliked_enlarged`
              and so on read small images enlarged, as our networks of whole images do.
        max_keypoints: Keep this many of the strongest keypoints; None or 0 for all.
    """
    count = max_keypoints or None
    head, colon, tail = text.partition(":")
    if not colon:
        return _whole(text, count)
    descriptor, at, magnifications = tail.partition("@")
    detector, oriented = head.removesuffix(UPRIGHT), not head.endswith(UPRIGHT)
    pooled = _magnifications(text, magnifications) if at else None
    peer = _peer(detector, count)
    if peer is None and not _is_dense(descriptor):
        return DescriptorExtractor(descriptor, detector, count, pooled, oriented)
    if _is_dense(descriptor):
        extractor: Extractor = DenseExtractor(descriptor, count)
    else:
        extractor = DescriptorExtractor(descriptor, "dog", count, pooled)
    if peer is not None:
        return _ComposedExtractor(text, peer.extract, extractor, peer.settings())
    find = functools.partial(_detect, detector, count, oriented)
    settings = {"detector": detector, "oriented": oriented, "max_keypoints": count}
    return _ComposedExtractor(text, find, extractor, settings)


def _whole(text: str, count: int | None) -> Extractor:
    """What detects and describes by itself, or a descriptor on the default's keypoints."""
    if (peer := _peer(text, count)) is not None:
        return peer
    if text == "rootsift":
        return _RootSift(_sift(count), count)
    algorithm = _opencv_algorithm(text, count)
    if algorithm is not None:
        return OpenCVExtractor(algorithm, count)
    if _is_dense(text):
        return DenseExtractor(text, count)
    extractor = registered(text, "extractor")
    if not isinstance(extractor, str):
        return extractor
    return DescriptorExtractor(text, max_keypoints=count)


def _peer(text: str, count: int | None) -> Any:
    name, equals, path = text.partition("=")
    if name.endswith(_ENLARGED) and equals:
        peer = _peer(f"{name.removesuffix(_ENLARGED)}={path}", count)
        return peer and EnlargedPeer(peer)
    if name in peers.PEERS and equals:
        if path.endswith(".onnx"):
            return OnnxExtractor(path, count)
        return peers.PEERS[name](path, count)
    if text.endswith(".onnx"):
        return OnnxExtractor(text, count)
    return None


def _opencv_algorithm(name: str, count: int | None) -> cv2.Feature2D | None:
    """An algorithm of OpenCV by its name in any case, None if there is none that describes."""
    if name == "sift":
        return _sift(count)
    if name == "orb":
        return cv2.ORB.create(count or _ALL)
    algorithm = _algorithms().get(name)
    return algorithm.create() if algorithm else None


@functools.cache
def _algorithms() -> dict[str, Any]:
    """OpenCV's classes by name, in lower case."""
    return {
        attribute.lower(): value
        for module in (cv2, cv2.xfeatures2d)
        for attribute, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, cv2.Feature2D)
    }


def _sift(count: int | None) -> cv2.SIFT:
    # Without precise upscaling its positions are off by a fraction of a pixel.
    return cv2.SIFT.create(nfeatures=count or 0, enable_precise_upscale=True)


def _is_dense(text: str | os.PathLike) -> bool:
    return network_of_images(text) == DENSE


def _detect(detector: str, count: int | None, oriented: bool, image: ImageLike) -> Detections:
    return detect(as_grey(image), detector, count, oriented)


def _magnifications(text: str, numbers: str) -> list[float]:
    try:
        return [float(number) for number in numbers.split("+")]
    except ValueError:
        raise InputError(f"{text} must end in magnifications such as @14 or @8+28.") from None


def _training(text: str) -> dict[str, Any]:
    """What is known of the training of a detector and a descriptor; empty if one is unknown."""
    parts = text.partition("@")[0].split(":")
    joined = itertools.chain.from_iterable(map(joined_names, parts))
    names = [name.removesuffix(UPRIGHT) for name in joined if name]
    if len(names) == 1 and text in list_pretrained("descriptor"):
        names.append(DEFAULT_DETECTOR)
    untrained = {*DETECTORS, *_algorithms()} - {"learned"}
    trainings = [{"data": "none"} if name in untrained else training_of(name) for name in names]
    if not all("data" in training for training in trainings):
        return {}
    return {
        key: ",".join(training[key] for training in trainings if training.get(key))
        for key in ("data", "chosen_on")
    }


def _short_name(text: str) -> str:
    """A name for tables: of paths their ends, of a peer its name."""
    parts = (part.partition("=") for part in text.split(":"))
    return ":".join(name if equals else pathlib.PurePath(name).name for name, equals, _ in parts)


class _RootSift(OpenCVExtractor):
    """OpenCV's SIFT with square roots of rows that sum to one."""

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        features = super().extract(image, mask)
        rows = features.descriptors
        rows = np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-7))
        return dataclasses.replace(features, descriptors=rows)

    def settings(self) -> dict[str, Any]:
        return {"root": True, **super().settings()}


class _ComposedExtractor:
    """An `Extractor` that describes keypoints found by another."""

    def __init__(
        self,
        name: str,
        find: Callable[[ImageLike], Features | Detections],
        extractor: Extractor,
        settings: dict[str, Any],
    ):
        self.name = name
        self.norm = extractor.norm
        self.describe = extractor.describe
        self._find = find
        self._extractor = extractor
        self._settings = settings

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        if mask is not None:
            raise InputError(f"{self.name} takes no mask.")
        found = self._find(image)
        return self._extractor.describe(image, found.frames, found.responses)

    def settings(self) -> dict[str, Any]:
        return {**self._extractor.settings(), "keypoints": self._settings}
