"""UBC PhotoTour's folder of patch mosaics, with its lists of 3D points and verification pairs."""

import collections
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

# The empty tiles at the end are not exactly constant in a lossy format.
_EMPTY_TILE_RANGE = 8


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
    """The files `patches0000.*`, `patches0001.*`, … of a folder, in order and without a gap."""
    folder = pathlib.Path(folder)
    mosaics: dict[int, pathlib.Path] = {}
    for path in sorted(folder.glob("patches*")):
        name = re.fullmatch(r"patches(\d+)", path.stem)
        if name and path.suffix.lower() in IMAGE_SUFFIXES:
            if other := mosaics.get(int(name[1])):
                raise InputError(f"{folder} holds {other.name} and {path.name}; keep one of them")
            mosaics[int(name[1])] = path
    if not mosaics:
        raise InputError(f"{folder} holds no mosaic patches0000.bmp, patches0001.bmp, …")
    for number in range(max(mosaics) + 1):
        if number not in mosaics:
            raise InputError(
                f"{folder} lacks mosaic patches{number:04d} (the last is "
                f"{mosaics[max(mosaics)].name}); fetch or unpack it again"
            )
    return [mosaics[number] for number in range(len(mosaics))]


def read_mosaic(path: str | os.PathLike) -> np.ndarray:
    """The tiles of a 1024×1024 mosaic, row by row: uint8 [256, 64, 64]."""
    image = read_grey(path)
    if image.shape != (PATCH * TILES, PATCH * TILES):
        raise InputError(
            f"{path} is {image.shape[1]}×{image.shape[0]} pixels; a mosaic has 1024×1024"
        )
    tiles = image.reshape(TILES, PATCH, TILES, PATCH).swapaxes(1, 2)
    return tiles.reshape(PATCHES_PER_MOSAIC, PATCH, PATCH)


def _read_columns(path: pathlib.Path, columns: tuple[int, ...]) -> np.ndarray:
    if not path.is_file():
        raise InputError(f"{path} is missing; fetch or unpack the folder again")
    try:
        with warnings.catch_warnings():
            # NumPy only warns of an empty file and of fractions, which it would cut off.
            warnings.simplefilter("error")
            table = np.loadtxt(
                path, np.int64, comments=None, usecols=columns, ndmin=2, encoding="utf-8"
            )
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, OverflowError, Warning) as error:
        raise InputError(f"{path} is no table of whole numbers: {error}") from error
    if table.min(initial=0) < 0:
        raise InputError(f"{path} holds the number {table.min()}; ids are not negative")
    return table


def read_point_ids(folder: str | os.PathLike) -> np.ndarray:
    """The 3D point of every patch from `info.txt`, or else `groups.txt`: int64 [N].

    `info.txt` is the official file (the point is the first number of a line), `groups.txt` a
    plain list of one group number a patch. The number of lines must fit the mosaics.
    """
    folder = pathlib.Path(folder)
    path = next(
        (folder / name for name in ("info.txt", "groups.txt") if (folder / name).exists()), None
    )
    if path is None:
        raise InputError(
            f"{folder} lacks info.txt (or groups.txt), which names every patch's point"
        )
    points = _read_columns(path, (0,))[:, 0]
    mosaics = len(list_mosaics(folder))
    fewest, most = (mosaics - 1) * PATCHES_PER_MOSAIC + 1, mosaics * PATCHES_PER_MOSAIC
    if not fewest <= len(points) <= most:
        raise InputError(
            f"{path} has {len(points)} lines, but {mosaics} mosaics hold {fewest} to {most} "
            "patches; fetch or unpack the folder again"
        )
    return points


def _iterate_mosaics(folder: str | os.PathLike, count: int) -> Iterator[np.ndarray]:
    """Yields the first `count` patches, mosaic by mosaic: uint8 [256 or fewer, 64, 64]."""
    paths = list_mosaics(folder)
    for path, patches in zip(paths, map_ahead(read_mosaic, paths), strict=True):
        if count < len(patches):
            beyond = patches[count:].reshape(-1, PATCH * PATCH).astype(np.int16)
            filled = np.flatnonzero(np.ptp(beyond, axis=1) > _EMPTY_TILE_RANGE)
            if filled.size:
                raise InputError(
                    f"{path} shows patches after the last line of the list of points "
                    f"(tile {count + filled[-1]}, {count} are listed); the list is cut short"
                )
        yield patches[:count]
        count -= len(patches)


def iterate_groups(folder: str | os.PathLike) -> Iterator[PointGroup]:
    """Yields every 3D point once, with its patches in the order of their ids.

    Each mosaic is read once. In memory are a few mosaics and the patches of points that are not
    complete yet: next to nothing in the official order, where a point's patches are neighbours.
    """
    points = read_point_ids(folder).tolist()
    sizes = collections.Counter(points)
    unfinished: dict[int, list[tuple[int, np.ndarray]]] = {}
    patch_id = 0
    for patches in _iterate_mosaics(folder, len(points)):
        for patch in patches:
            point = points[patch_id]
            members = unfinished.setdefault(point, [])
            # A view would keep the whole mosaic in memory.
            members.append((patch_id, patch.copy()))
            patch_id += 1
            if len(members) == sizes[point]:
                ids, members_patches = zip(*unfinished.pop(point), strict=True)
                yield PointGroup(point, np.array(ids), np.stack(members_patches))


def read_patches(folder: str | os.PathLike, patch_ids: np.ndarray) -> np.ndarray:
    """Reads the patches with the given ids, in that order: uint8 [len(patch_ids), 64, 64]."""
    patch_ids = np.asarray(patch_ids, np.int64)
    count = len(read_point_ids(folder))
    if patch_ids.size and not 0 <= patch_ids.min() <= patch_ids.max() < count:
        wrong = patch_ids.min() if patch_ids.min() < 0 else patch_ids.max()
        raise InputError(f"{folder} has patches 0 to {count - 1}; patch {wrong} was asked for")
    paths = list_mosaics(folder)
    mosaic_numbers = patch_ids // PATCHES_PER_MOSAIC
    needed = np.unique(mosaic_numbers)
    patches = np.empty((len(patch_ids), PATCH, PATCH), np.uint8)
    mosaics = map_ahead(read_mosaic, [paths[number] for number in needed])
    for number, mosaic in zip(needed, mosaics, strict=True):
        rows = np.flatnonzero(mosaic_numbers == number)
        patches[rows] = mosaic[patch_ids[rows] % PATCHES_PER_MOSAIC]
    return patches


def read_pairs(folder: str | os.PathLike, name: str = PAIRS_FILE) -> PatchPairs:
    """Reads a verification list and checks it against the folder's list of points.

    A line holds patch, point and an unused number, twice.
    """
    path = pathlib.Path(folder) / name
    table = _read_columns(path, (0, 1, 3, 4))
    pairs = PatchPairs(table[:, 0::2], table[:, 1::2])
    points = read_point_ids(folder)
    if not len(table) or pairs.matches.all() or not pairs.matches.any():
        raise InputError(
            f"{path} has {int(pairs.matches.sum())} matches among {len(table)} pairs; "
            "a verification list needs matches and non-matches"
        )
    if pairs.patch_ids.max() >= len(points):
        raise InputError(
            f"{path} names patch {pairs.patch_ids.max()}, but the folder has {len(points)} patches"
        )
    disagree = np.flatnonzero((points[pairs.patch_ids] != pairs.point_ids).any(axis=1))
    if disagree.size:
        raise InputError(
            f"line {disagree[0] + 1} of {path} gives other points than the folder's list of "
            "points; the files belong to different datasets"
        )
    return pairs
