"""A peer that reads small images enlarged, as our networks of whole images do."""

import dataclasses
from typing import Any

import numpy as np

from doap_tf.evaluation.peer_extractor import PeerExtractor
from doap_tf.features.enlarging import enlarge, enlarging_factor
from doap_tf.features.frames import compose
from doap_tf.matching import Features
from doap_tf.readers.images import ImageLike, as_colour


class EnlargedPeer(PeerExtractor):
    """The features that another peer extracts in enlarged images."""

    def __init__(self, peer: PeerExtractor):
        self.name = peer.name
        self._peer = peer

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first."""
        colour = as_colour(image)
        height, width = colour.shape[:2]
        factor = enlarging_factor(height * width)
        larger = np.rint([width * factor, height * factor]).astype(int)
        features = self._peer.extract(enlarge(colour, tuple(larger.tolist())), mask)
        scale = np.array([width, height]) / larger
        shrink = np.column_stack([np.diag(scale), scale / 2 - 0.5])
        frames = compose(shrink, features.frames)
        return dataclasses.replace(features, frames=frames, image_size=(width, height))

    def settings(self) -> dict[str, Any]:
        """As for `Extractor`."""
        return {**self._peer.settings(), "enlarged": True}
