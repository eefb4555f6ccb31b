"""Photographs of reconstructed scenes, with the points that several of them show."""

import itertools
import os
import pathlib
from typing import NamedTuple

import numpy as np

from doap_tf import files
from doap_tf.training.dense_images import arrays_sha256, decode_images, encode_images, open_arrays

_FEWEST_POINTS = 24  # that both photographs of a pair show
_MOST_POINTS = 512
_LARGEST_TURN = np.pi / 4  # between the photographs of a pair


class TrackPairs(NamedTuple):
    """Pairs of photographs and the points that both show, of one size for the device.

    Attributes:
        images: uint8 [I, H, W].
        numbers: int32 [P, 2], the images of each pair.
        points: float32 [P, 2, T, 2], x and y in both images; pixel centres are at integers.
        counts: int32 [P], number of the points of a pair that count, the first ones.
        cumulative: float32 [P], cumulative probabilities by which pairs are drawn: an image, each
            as likely, and then one of its partners.
    """

    images: np.ndarray
    numbers: np.ndarray
    points: np.ndarray
    counts: np.ndarray
    cumulative: np.ndarray


class SceneTracks(NamedTuple):
    """Photographs, and the tracks of points through them.

    Attributes:
        images: uint8 [I, H, W], photographs of several sizes in the upper left of a common one,
            beyond their borders reflected.
        image_numbers: int32 [O], the image of each observation.
        track_numbers: int32 [O], the point that is observed; scenes have no number in common.
        positions: float32 [O, 2], x and y; pixel centres are at integers.
    """

    images: np.ndarray
    image_numbers: np.ndarray
    track_numbers: np.ndarray
    positions: np.ndarray

    def __str__(self) -> str:
        count = len(np.unique(self.track_numbers))
        return f"{len(self.images)} photographs of scenes with {count:,} points"

    def sha256(self) -> str:
        """Returns a hash of everything."""
        return arrays_sha256(self)

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file that `load_tracks` reads, the images as JPEG."""
        arrays = {**self._asdict(), **encode_images("images", self.images)}
        with files.write_atomically(pathlib.Path(path)) as temporary:
            np.savez_compressed(temporary, **arrays)

    def pairs(self) -> TrackPairs:
        """Returns the pairs of images with at least 24 common points, of which 512 are kept.

        Images that are turned against each other by more than 45 degrees are no pair.
        """
        order = np.argsort(self.image_numbers, kind="stable")
        starts = np.searchsorted(self.image_numbers[order], np.arange(len(self.images) + 1))
        rows = [order[start:end] for start, end in itertools.pairwise(starts)]
        numbers, chosen = [], []
        for one, two in itertools.combinations(range(len(rows)), 2):
            tracks = self.track_numbers[rows[one]], self.track_numbers[rows[two]]
            _, first, second = np.intersect1d(tracks[0], tracks[1], return_indices=True)
            if len(first) < _FEWEST_POINTS:
                continue
            both = rows[one][first], rows[two][second]
            if abs(_turn(*(self.positions[side] for side in both))) > _LARGEST_TURN:
                continue
            some = np.linspace(0, len(first) - 1, min(len(first), _MOST_POINTS)).astype(int)
            numbers.append((one, two))
            chosen.append((both[0][some], both[1][some]))
        counts = np.array([len(first) for first, _ in chosen], np.int32)
        points = np.zeros([len(chosen), 2, counts.max(initial=1), 2], np.float32)
        for pair, both in enumerate(chosen):
            points[pair, :, : counts[pair]] = self.positions[np.stack(both)]
        of_pairs = np.array(numbers, np.int32).reshape(-1, 2)
        partners = np.bincount(of_pairs.ravel(), minlength=len(rows))
        weights = np.sum(1 / partners[of_pairs], axis=1)
        cumulative = (np.cumsum(weights) / weights.sum()).astype(np.float32)
        return TrackPairs(self.images, of_pairs, points, counts, cumulative)


def _turn(points1: np.ndarray, points2: np.ndarray) -> float:
    """Angle of the similarity that maps points [N, 2] to others best."""
    one, two = (points @ [1, 1j] for points in (points1, points2))
    return float(np.angle(np.vdot(one - one.mean(), two - two.mean())))


def load_tracks(path: str | os.PathLike) -> SceneTracks:
    """Reads a file that `SceneTracks.save` wrote."""
    with open_arrays(path, "tracks of scenes") as content:
        tracks = SceneTracks(
            decode_images(content, "images"), *(content[name] for name in SceneTracks._fields[1:])
        )
        counts = {len(array) for array in tracks[1:]}
        if len(counts) > 1 or tracks.positions.shape[1:] != (2,):
            raise ValueError("its observations differ in number")
        if not np.isin(tracks.image_numbers, np.arange(len(tracks.images))).all():
            raise ValueError("observations of missing images")
        if not len(tracks.pairs().counts):
            raise ValueError(f"no two images have {_FEWEST_POINTS} points in common")
    return tracks
