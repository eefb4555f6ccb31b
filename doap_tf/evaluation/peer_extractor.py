"""What the networks of others that read whole images share."""

import abc
import pathlib
from typing import Any

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.matching import Features
from doap_tf.readers.images import ImageLike

RADIUS = 1.6  # of a network's keypoints, in pixels of the image that it saw


class PeerExtractor(abc.ABC):
    """An `Extractor` that describes keypoints of its own.

    Args:
        name: Its name, or the path of its file.
        weights_sha256: Hash of its weights; None if it has no file of them.
        max_keypoints: Keep this many of the strongest; None or 0 for all.
    """

    norm = cv2.NORM_L2

    def __init__(self, name: str, weights_sha256: str | None, max_keypoints: int | None):
        self.name = name
        self._sha256 = weights_sha256
        self._max_keypoints = max_keypoints or None

    @abc.abstractmethod
    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first."""

    def describe(
        self, image: ImageLike, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Refuses: it describes only what it detects."""
        raise InputError(f"{self.name} describes only keypoints of its own.")

    def settings(self) -> dict[str, Any]:
        """As for `Extractor`."""
        return {
            "peer": pathlib.PurePath(self.name).name,
            "weights_sha256": self._sha256,
            "max_keypoints": self._max_keypoints,
        }
