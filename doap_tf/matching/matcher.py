"""What matches the features of two images: by descriptors alone, or by positions and context."""

from typing import Any, NamedTuple, Protocol

import numpy as np

from doap_tf.counts import count
from doap_tf.matching.image_features import Features


class Matches(NamedTuple):
    """Pairs of matching features.

    Attributes:
        indices: int64 [M, 2], rows of the first and the second features.
        scores: float32 [M], 0…1, the higher the more confident.
        distances: float32 [M] between descriptors, of a matcher that compares them.
    """

    indices: np.ndarray
    scores: np.ndarray
    distances: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"Matches({count(len(self.indices), 'match')})"


class Matcher(Protocol):
    """Matches features: `NearestNeighbours`, or a class of your own, which its name identifies."""

    def match(self, features1: Features, features2: Features) -> Matches:
        """Matches the features of two images, each feature at most once for COLMAP and hloc."""

    def settings(self) -> dict[str, Any]:
        """Returns all that the matches depend on besides the features, for JSON."""
