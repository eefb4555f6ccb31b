"""RomePatches' MATLAB files: patches of 51×51 in groups of ten."""

import contextlib
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
    """The files of a half: its patches and its labels."""
    return f"patch_retrieval_Rome_{half}.mat", f"patch_retrieval_Rome_{half}_labels.mat"


def _grey_patches(array: np.ndarray) -> np.ndarray | None:
    """[N, 51, 51] from an array with one or three channels, whose axes may come in any order."""
    sides = [axis for axis, length in enumerate(array.shape) if length == PATCH]
    if len(sides) < 2 or array.ndim not in (3, 4):
        return None
    # With 51 patches three axes qualify; the two sides are neighbours, patches first or last.
    rows, columns = sides[-2:] if array.shape[-1] == PATCH else sides[:2]
    array = np.moveaxis(array, (rows, columns), (-2, -1))
    if array.ndim == 4:
        channels = next((axis for axis in (1, 0) if array.shape[axis] in (1, 3)), None)
        if channels is None:
            return None
        array = np.moveaxis(array, channels, -1)
    else:
        array = array[..., np.newaxis]
    if not np.isfinite(array).all() or array.min(initial=0) < 0 or array.max(initial=0) > 255:
        return None
    if np.issubdtype(array.dtype, np.floating):
        array = np.rint(array * (255 if array.max(initial=0) <= 1 else 1))
    array = np.ascontiguousarray(array.astype(np.uint8))
    if array.shape[-1] == 1:
        return array[..., 0]
    return np.stack([cv2.cvtColor(patch, cv2.COLOR_RGB2GRAY) for patch in array])


def _describe(variables: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{name} {value.shape}" for name, value in variables.items()) or "none"


def _read_patches(path: pathlib.Path) -> np.ndarray:
    variables = read_matlab(path)
    found = {name: _grey_patches(value) for name, value in variables.items()}
    patches = next((value for value in found.values() if value is not None and len(value)), None)
    if patches is None:
        raise InputError(
            f"{path} holds no array of 51×51 patches with values 0 to 255; its variables are: "
            f"{_describe(variables)}"
        )
    return patches


def _read_labels(path: pathlib.Path, count: int) -> np.ndarray:
    variables = read_matlab(path)
    labels = next((value for value in variables.values() if value.size == count), None)
    if labels is None:
        with contextlib.suppress(KeyError):
            # The files as distributed: first the queries, one of each group, then the database.
            labels = np.concatenate([variables[name].ravel() for name in ("labels_gt", "labels")])
    if labels is None or labels.size != count:
        raise InputError(
            f"{path} holds no labels for {count} patches, in one array or in labels_gt and labels "
            f"together; its variables are: {_describe(variables)}"
        )
    if not (np.abs(labels) < 2**53).all():  # NaN is not either
        raise InputError(f"{path} holds labels that are no whole numbers")
    return labels.ravel().astype(np.int64)


def read_rome_half(folder: str | os.PathLike, half: str) -> tuple[np.ndarray, np.ndarray]:
    """Reads the half `"train"` or `"test"` of RomePatches, its groups in the order of their labels.

    Returns:
        patches: uint8 [G, 10, 51, 51]; colour is turned grey.
        labels: int64 [G], the number of each group in the files.
    """
    patches_path, labels_path = (pathlib.Path(folder) / name for name in file_names(half))
    patches = _read_patches(patches_path)
    labels = _read_labels(labels_path, len(patches))
    numbers, sizes = np.unique(labels, return_counts=True)
    if (sizes != GROUP).any():
        wrong = np.flatnonzero(sizes != GROUP)[0]
        raise InputError(
            f"{labels_path} gives {sizes[wrong]} patches the label {numbers[wrong]}; "
            f"every group has {GROUP}"
        )
    members = np.argsort(labels, kind="stable").reshape(-1, GROUP)
    return patches[members], numbers
