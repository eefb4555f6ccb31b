"""Matching descriptors by nearest neighbours: plain, mutual, with Lowe's ratio, or both."""

import dataclasses
from typing import Any

import numpy as np

from doap_tf.errors import InputError, check_choice
from doap_tf.matching.image_features import Features, unit_rows
from doap_tf.matching.matcher import Matches
from doap_tf.matching.quantized_search import MOST_BITS, nearest_quantized
from doap_tf.metrics import NORM_L2, nearest, nearest_both_ways
from doap_tf.metrics.distances import checked_sides

METHODS = ("nearest", "mutual", "ratio", "mutual_ratio")
_QUANTIZED_FROM = 1024  # rows on both sides; fewer are compared exactly in no time


@dataclasses.dataclass(frozen=True)
class NearestNeighbours:
    """A `Matcher` that compares descriptors only; scores are their cosines, mapped to 0…1.

    Where both images have many descriptors, neighbours are looked for by products of 8-bit
    integers and then compared exactly, which is several times as fast: of floats, all but about one
    in a thousand matches are those of the exact search, and of bits all.

    Args:
        method: One of `METHODS`; see `match_descriptors`.
        ratio: Lowe's ratio, for the methods that use it.
    """

    method: str = "mutual"
    ratio: float = 0.8

    def __post_init__(self) -> None:
        _check_method(self.method, self.ratio)

    def settings(self) -> dict[str, Any]:
        """As for `Matcher`."""
        ratio = {"ratio": self.ratio} if "ratio" in self.method else {}
        return {"method": self.method, **ratio}

    def match(self, features1: Features, features2: Features) -> Matches:
        """As for `Matcher`; ascending in the first features."""
        norm = features1.norm
        if norm != features2.norm:
            raise InputError("features of different descriptors cannot be matched.")
        rows1, rows2 = features1.descriptors, features2.descriptors
        quantized = min(len(rows1), len(rows2)) >= _QUANTIZED_FROM and (
            norm == NORM_L2 or 8 * rows1.shape[1] <= MOST_BITS
        )
        indices, distances = match_descriptors(
            rows1, rows2, norm, self.method, self.ratio, quantized=quantized
        )
        first, second = indices.T
        cosines = (unit_rows(rows1[first], norm) * unit_rows(rows2[second], norm)).sum(axis=1)
        return Matches(indices, (cosines + 1) / 2, distances)


def match_descriptors(
    descriptors1: np.ndarray,
    descriptors2: np.ndarray,
    norm: int,
    method: str = "mutual",
    ratio: float = 0.8,
    memory_mb: float = 512,
    quantized: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Finds matches exactly, as `cv2.BFMatcher` would; ties go to the lowest index.

    Args:
        descriptors1: [N, D], or packed bits [N, bits / 8].
        descriptors2: [M, D], or packed bits [M, bits / 8].
        norm: `cv2.NORM_L2` or `cv2.NORM_HAMMING`.
        method: `"nearest"`: the nearest of the second descriptors for each of the first.
            `"mutual"`: of these, the pairs that are each other's nearest. `"ratio"`: the pairs
            whose distance is below `ratio` times that of the second nearest; passes if there is
            only one. `"mutual_ratio"`: both.
        ratio: Lowe's ratio, for the methods that use it.
        memory_mb: Limit for temporary memory.
        quantized: Whether to look for neighbours in 8 bits (`nearest_quantized`): faster, and for
            floats nearly the same. For at least two of the second descriptors, and at most
            `MOST_BITS`.

    Returns:
        Rows of both sets, int64 [K, 2], ascending in the first, and their distances float32 [K].
    """
    _check_method(method, ratio)
    with_ratio = "ratio" in method
    k = 2 if with_ratio else 1
    back: np.ndarray | None
    if quantized:
        sides = checked_sides(descriptors1, descriptors2, norm)
        neighbours, distances, back = nearest_quantized(*sides, norm, k)
    elif "mutual" in method:
        neighbours, distances, back = nearest_both_ways(
            descriptors1, descriptors2, norm, k, memory_mb
        )
    else:
        neighbours, distances = nearest(descriptors1, descriptors2, norm, k, memory_mb)
        back = None
    kept = neighbours[:, 0] >= 0
    if with_ratio:
        kept &= distances[:, 0] < ratio * distances[:, 1]
    first = np.flatnonzero(kept)
    second = neighbours[first, 0]
    if back is not None and "mutual" in method:
        mutual = back[second] == first
        first, second = first[mutual], second[mutual]
    return np.stack([first, second], axis=1), distances[first, 0]


def _check_method(method: str, ratio: float) -> None:
    """Raises an InputError unless `match_descriptors` takes these."""
    check_choice("method", method, METHODS)
    if not 0 < ratio <= 1:
        raise InputError(f"ratio must be above 0 and at most 1, not {ratio!r}.")
