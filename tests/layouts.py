"""Small datasets in the exact layouts of the published ones, with textured patches that match."""

import pathlib
from collections.abc import Sequence

import cv2
import h5py
import numpy as np
import scipy.io

JITTER = {"e": 0.5, "h": 1.0, "t": 1.8}


def texture(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    """A picture with structure at several scales: uint8 [height, width]."""
    picture = np.zeros((height, width), np.float32)
    for cells in (3, 6, 12, 24):
        noise = rng.standard_normal((cells, max(2, cells * width // height)), np.float32)
        picture += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    picture = 128 + 45 * (picture - picture.mean()) / picture.std()
    return np.clip(picture, 0, 255).astype(np.uint8)


def views(rng: np.random.Generator, count: int, size: int, jitter: float = 1.0) -> np.ndarray:
    """One place under small changes of pose and light: uint8 [count, size, size]."""
    return np.stack(list(_views(rng, texture(rng, 2 * size, 2 * size), count, size, jitter)))


def _views(rng, place, count, size, jitter):
    for _ in range(count):
        angle, scale = rng.normal(0, 4 * jitter), np.exp(rng.normal(0, 0.04 * jitter))
        pose = cv2.getRotationMatrix2D((size - 0.5, size - 0.5), angle, scale)
        pose[:, 2] += rng.normal(0, jitter, 2) - size / 2
        patch = cv2.warpAffine(place, pose, (size, size)).astype(np.float32)
        patch = (patch - 128) * np.exp(rng.normal(0, 0.1)) + 128 + rng.normal(0, 8)
        patch += rng.normal(0, 3, patch.shape)
        yield np.clip(patch, 0, 255).astype(np.uint8)


def write_ubc(
    folder: pathlib.Path, groups: int = 100, pairs: int = 40, suffix: str = ".bmp", seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Writes mosaics, `info.txt` and the list of pairs, half of them matches.

    Returns:
        patches uint8 [N, 64, 64] and points int64 [N]; a point has two to five patches and the
        points' ids are not dense.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = rng.integers(2, 6, groups)
    points = np.repeat(3 * np.arange(groups), sizes)
    patches = np.concatenate([views(rng, size, 64) for size in sizes])
    for number, first in enumerate(range(0, len(patches), 256)):
        tiles = np.zeros((256, 64, 64), np.uint8)
        tiles[: len(patches[first : first + 256])] = patches[first : first + 256]
        mosaic = tiles.reshape(16, 16, 64, 64).swapaxes(1, 2).reshape(1024, 1024)
        cv2.imwrite(str(folder / f"patches{number:04d}{suffix}"), mosaic)
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in points))
    lines = []
    for pair in range(pairs):
        first = rng.integers(len(points))
        same = points == points[first]
        same[first] = False
        second = rng.choice(np.flatnonzero(same if pair % 2 else ~same & (points != points[first])))
        lines.append(f"{first} {points[first]} 0 {second} {points[second]} 0 0\n")
    (folder / "m50_100000_100000_0.txt").write_text("".join(lines))
    return patches, points


def write_hpatches(
    folder: pathlib.Path,
    sequences: Sequence[str] = ("i_ajuntament", "v_courses"),
    positions: int = 12,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Writes the sixteen strips of every sequence.

    Returns:
        for every sequence uint8 [positions, 16, 65, 65], in the order ref, e1–5, h1–5, t1–5.
    """
    rng = np.random.default_rng(seed)
    written = {}
    for sequence in sequences:
        patches = []
        for _ in range(positions):
            place = texture(rng, 130, 130)
            patches.append([*_views(rng, place, 1, 65, 0.0)])
            for jitter in JITTER.values():
                patches[-1] += _views(rng, place, 5, 65, jitter)
        written[sequence] = np.array(patches)
        (folder / sequence).mkdir(parents=True, exist_ok=True)
        names = ["ref", *(f"{level}{image}" for level in JITTER for image in range(1, 6))]
        for strip, name in zip(written[sequence].swapaxes(0, 1), names, strict=True):
            cv2.imwrite(str(folder / sequence / f"{name}.png"), strip.reshape(-1, 65))
    return written


def write_rome(
    folder: pathlib.Path, groups: int = 8, matlab: str = "5", seed: int = 0
) -> dict[str, np.ndarray]:
    """Writes the four MATLAB files of version "5" or "7.3".

    As distributed: `patches` [N, 3, 51, 51] with one query of each group first, then the database
    in no order; the labels in `labels_gt` and `labels`.

    Returns:
        for train and test uint8 [groups, 10, 51, 51].
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for half in ("train", "test"):
        written[half] = np.stack([views(rng, 10, 51) for _ in range(groups)])
        queries, database = written[half][:, 0], written[half][:, 1:].reshape(-1, 51, 51)
        labels = np.repeat(np.arange(groups), 9)
        # Stable within a group, so that the returned order is the one a reader finds.
        order = np.argsort(np.tile(np.arange(9), groups), kind="stable")
        patches = np.concatenate([queries, database[order]])
        colour = np.repeat(patches[:, np.newaxis], 3, axis=1)
        _write_matlab(folder / f"patch_retrieval_Rome_{half}.mat", matlab, patches=colour)
        _write_matlab(
            folder / f"patch_retrieval_Rome_{half}_labels.mat",
            matlab,
            labels_gt=np.arange(1.0, groups + 1)[:, np.newaxis],
            labels=labels[order][:, np.newaxis] + 1.0,
        )
    return written


def _write_matlab(path: pathlib.Path, version: str, **variables: np.ndarray) -> None:
    if version == "5":
        scipy.io.savemat(path, variables)
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            file.create_dataset(name, data=value.T)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_image_sequences(
    folder: pathlib.Path,
    sequences: Sequence[str] = ("graf", "boat"),
    layout: str = "oxford",
    size: tuple[int, int] = (120, 160),
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Writes six images and five homographies for every sequence.

    Args:
        folder: gets a folder for every sequence.
        sequences: their names; boat is grey, as in the original.
        layout: "oxford" (img1.ppm, H1to2p) or "hpatches" (1.ppm, H_1_2).
        size: height and width of the first image; the others are larger, as some are in HPatches.
        seed: of the textures and homographies.

    Returns:
        for every sequence float64 [5, 3, 3].
    """
    rng = np.random.default_rng(seed)
    image_name, matrix_name = {
        "oxford": ("img{}", "H1to{}p"),
        "hpatches": ("{}", "H_1_{}"),
    }[layout]
    height, width = size
    written = {}
    for sequence in sequences:
        (folder / sequence).mkdir(parents=True, exist_ok=True)
        suffix = ".pgm" if sequence == "boat" else ".ppm"
        first = texture(rng, height, width)
        if suffix == ".ppm":
            first = cv2.applyColorMap(first, cv2.COLORMAP_BONE)
        corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
        written[sequence] = np.empty((5, 3, 3))
        for number in range(1, 7):
            image = first
            if number > 1:
                moved = corners + rng.normal(0, 0.02 * width * (number - 1), (4, 2))
                matrix = cv2.getPerspectiveTransform(corners, moved.astype(np.float32))
                written[sequence][number - 2] = matrix
                np.savetxt(folder / sequence / matrix_name.format(number), matrix, fmt="%.17g")
                image = cv2.warpPerspective(first, matrix, (width + 2 * number, height))
            cv2.imwrite(str(folder / sequence / f"{image_name.format(number)}{suffix}"), image)
    return written
