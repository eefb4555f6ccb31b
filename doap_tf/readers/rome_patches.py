"""RomePatches' MATLAB files: patches of 51×51 in groups of ten."""

import os
import pathlib

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.readers.matlab import read_matlab

PATCH = 51
GROUP = 10
HALVES = ("train", "test")


def file_names(half: str) -> tuple[str, str]:
    """Returns the names of a half's two files: patches and labels."""
    return f"patch_retrieval_Rome_{half}.mat", f"patch_retrieval_Rome_{half}_labels.mat"


def read_rome_half(folder: str | os.PathLike, half: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads the half `"train"` or `"test"` of RomePatches, its groups in the order of their labels.

    Returns:
        patches: uint8 [G, 10, 51, 51]; colours are converted to grey.
        labels: int64 [G], the number of each group in the files.
    """
    patches_path, labels_path = (pathlib.Path(folder) / name for name in file_names(half))
    patches = _read_patches(patches_path)
    labels = _read_labels(labels_path, len(patches))
    numbers, sizes = np.unique(labels, return_counts=True)
    if (sizes != GROUP).any():
        wrong = np.flatnonzero(sizes != GROUP)[0]
        raise InputError(
            f"{labels_path} has {sizes[wrong]} patches with label {numbers[wrong]}; every group "
            f"has {GROUP}. Fetch the file again"
        )
    members = np.argsort(labels, kind="stable").reshape(-1, GROUP)
    return patches[members], numbers


def _read_patches(path: pathlib.Path) -> np.ndarray:
    variables = read_matlab(path)
    for array in variables.values():
        patches = _grey_patches(array)
        if patches is not None:
            return patches
    raise InputError(
        f"{path} holds no array of 51×51 patches with values 0 to 255; its variables are: "
        f"{_describe(variables)}. Fetch the file again"
    )


def _grey_patches(array: np.ndarray) -> np.ndarray | None:
    """Returns uint8 [N, 51, 51] for patches with any order of axes, None for other arrays."""
    sides = [axis for axis, length in enumerate(array.shape) if length == PATCH]
    if array.ndim not in (3, 4) or len(sides) < 2:
        return None
    # With 51 patches three axes qualify; the two sides are neighbours, patches first or last.
    sides = sides[-2:] if array.shape[-1] == PATCH else sides[:2]
    array = np.moveaxis(array, sides, (-2, -1))
    if array.ndim == 3:
        array = array[:, np.newaxis]
    elif array.shape[1] not in (1, 3):
        array = array.swapaxes(0, 1)
    lowest, highest = array.min(initial=0), array.max(initial=0)
    if array.shape[1] not in (1, 3) or not (lowest >= 0 and highest <= 255):
        return None
    if np.issubdtype(array.dtype, np.floating):
        array = np.rint(array * (255 if highest <= 1 else 1))
    array = array.astype(np.uint8)
    if array.shape[1] == 1:
        return array[:, 0]
    rows = np.ascontiguousarray(np.moveaxis(array, 1, -1)).reshape(-1, PATCH, 3)
    return cv2.cvtColor(rows, cv2.COLOR_RGB2GRAY).reshape(-1, PATCH, PATCH)


def _read_labels(path: pathlib.Path, count: int) -> np.ndarray:
    variables = read_matlab(path)
    candidates = [array.ravel() for array in variables.values()]
    if {"labels_gt", "labels"} <= variables.keys():
        # The files as distributed: first the queries, one of each group, then the database.
        parts = [variables[name].ravel() for name in ("labels_gt", "labels")]
        candidates.append(np.concatenate(parts))
    for labels in candidates:
        if labels.size == count:
            return labels.astype(np.int64)
    raise InputError(
        f"{path} holds no labels for {count} patches, in one array or in labels_gt and labels "
        f"together; its variables are: {_describe(variables)}. Fetch the file again"
    )


def _describe(variables: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {value.shape}" for name, value in variables.items()) or "none"
