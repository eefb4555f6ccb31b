"""UBC PhotoTour's folder of patch mosaics, with its lists of 3D points and verification pairs."""

import collections
import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from doap_tf.errors import InputError
from doap_tf.parallel import map_ahead
from doap_tf.readers.images import IMAGE_SUFFIXES, read_grey

PATCH = 64
TILES = 16
PATCHES_PER_MOSAIC = TILES * TILES
PAIRS_FILE = "m50_100000_100000_0.txt"


class PointGroup(NamedTuple):
    """All patches of one 3D point."""

    point_id: int
    patch_ids: np.ndarray  # int64 [n]
    patches: np.ndarray  # uint8 [n, 64, 64]


class PatchPairs(NamedTuple):
    """A verification list: pairs of patches, a match where both show the same 3D point."""

    patch_ids: np.ndarray  # int64 [P, 2]
    point_ids: np.ndarray  # int64 [P, 2]

    @property
    def matches(self) -> np.ndarray:
        """bool [P]."""
        return self.point_ids[:, 0] == self.point_ids[:, 1]


def list_mosaics(folder: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the files `patches0000.*`, `patches0001.*`, … of a folder, in order."""
    numbered = [
        (int(name[1]), path)
        for path in pathlib.Path(folder).glob("patches*")
        if path.suffix.lower() in IMAGE_SUFFIXES
        and (name := re.fullmatch(r"patches(\d+)", path.stem))
    ]
    mosaics = [path for _, path in sorted(numbered)]
    for expected, (number, path) in enumerate(sorted(numbered)):
        if number != expected:
            raise InputError(
                f"{folder} holds {path.name} in place of mosaic {expected}; there must be one of "
                "each number. Fetch or unpack the folder again"
            )
    if not mosaics:
        raise InputError(f"{folder} holds no mosaics patches0000.bmp, patches0001.bmp, …")
    return mosaics


def read_mosaic(path: str | os.PathLike) -> np.ndarray:
    """Reads the tiles of a 1024×1024 mosaic, row by row: uint8 [256, 64, 64]."""
    image = read_grey(path)
    if image.shape != (PATCH * TILES, PATCH * TILES):
        raise InputError(
            f"{path} is {image.shape[1]}×{image.shape[0]} pixels; a mosaic has 1024×1024. "
            "Fetch or unpack it again"
        )
    tiles = image.reshape(TILES, PATCH, TILES, PATCH).swapaxes(1, 2)
    return tiles.reshape(PATCHES_PER_MOSAIC, PATCH, PATCH)


def read_point_ids(folder: str | os.PathLike) -> np.ndarray:
    """Reads the 3D point of every patch, from `info.txt` or else `groups.txt`: int64 [N].

    `info.txt` is the official file, whose lines start with the point; `groups.txt` is a plain list
    of one number per patch.
    """
    folder = pathlib.Path(folder)
    path = folder / "info.txt"
    if not path.exists() and (folder / "groups.txt").exists():
        path = folder / "groups.txt"
    points = _read_columns(path, (0,))[:, 0]
    mosaics = len(list_mosaics(folder))
    fewest, most = (mosaics - 1) * PATCHES_PER_MOSAIC + 1, mosaics * PATCHES_PER_MOSAIC
    if not fewest <= len(points) <= most:
        raise InputError(
            f"{path} has {len(points)} lines, but {mosaics} mosaics hold {fewest} to {most} "
            "patches; fetch or unpack the folder again"
        )
    return points


def iterate_groups(folder: str | os.PathLike) -> Iterator[PointGroup]:
    """Yields every 3D point once, with its patches in the order of their ids.

    Each mosaic is read once. In memory are a few mosaics and the patches of points that are not
    complete yet: very few in the official order, where a point's patches are neighbours.
    """
    points = read_point_ids(folder).tolist()
    sizes = collections.Counter(points)
    unfinished: dict[int, list[tuple[int, np.ndarray]]] = {}
    patches = itertools.chain.from_iterable(map_ahead(read_mosaic, list_mosaics(folder)))
    # There are fewer points than patches: the last mosaic ends with empty tiles.
    for patch_id, (point, patch) in enumerate(zip(points, patches, strict=False)):
        members = unfinished.setdefault(point, [])
        members.append((patch_id, patch.copy()))  # a view would keep the whole mosaic in memory
        if len(members) == sizes[point]:
            ids, members_patches = zip(*unfinished.pop(point), strict=True)
            yield PointGroup(point, np.array(ids), np.stack(members_patches))


def read_patches(folder: str | os.PathLike, patch_ids: np.ndarray) -> np.ndarray:
    """Reads the patches with the given ids, in that order: uint8 [len(patch_ids), 64, 64]."""
    paths = list_mosaics(folder)
    numbers, tiles = np.divmod(np.asarray(patch_ids, np.int64), PATCHES_PER_MOSAIC)
    needed = np.unique(numbers)
    patches = np.empty((len(tiles), PATCH, PATCH), np.uint8)
    mosaics = map_ahead(read_mosaic, [paths[number] for number in needed])
    for number, mosaic in zip(needed, mosaics, strict=True):
        rows = np.flatnonzero(numbers == number)
        patches[rows] = mosaic[tiles[rows]]
    return patches


def read_pairs(folder: str | os.PathLike) -> PatchPairs:
    """Reads the verification list and checks it against the folder's list of points.

    A line holds patch, point and an unused number, twice.
    """
    path = pathlib.Path(folder) / PAIRS_FILE
    table = _read_columns(path, (0, 1, 3, 4))
    pairs = PatchPairs(table[:, 0::2], table[:, 1::2])
    points = read_point_ids(folder)
    if pairs.patch_ids.max() >= len(points):
        raise InputError(
            f"{path} names patch {pairs.patch_ids.max()}, but the folder has {len(points)} "
            "patches; fetch or unpack the folder again"
        )
    wrong = np.flatnonzero((points[pairs.patch_ids] != pairs.point_ids).any(axis=1))
    if wrong.size:
        raise InputError(
            f"line {wrong[0] + 1} of {path} names other points than the folder's list of points; "
            "the files belong to different datasets; fetch or unpack the folder again"
        )
    return pairs


def _read_columns(path: pathlib.Path, columns: tuple[int, ...]) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            # NumPy only warns about an empty file and about fractions, which it would cut off.
            warnings.simplefilter("error")
            return np.loadtxt(path, np.int64, usecols=columns, ndmin=2, encoding="utf-8")
    except OSError as error:
        raise InputError(
            f"cannot read {path} ({error}); fetch or unpack the folder again"
        ) from error
    except (ValueError, OverflowError, Warning) as error:
        raise InputError(
            f"{path} is not a table of whole numbers ({error}); fetch or unpack it again"
        ) from error
