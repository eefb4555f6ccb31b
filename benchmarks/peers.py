"""Keypoints with descriptors of their own: the networks ALIKED and R2D2.

The networks are imported from folders that hold their repositories, github.com/Shiaoming/ALIKED and
github.com/naver/r2d2, with their weights, and need PyTorch and torchvision. Each class takes the
number of the strongest keypoints to keep, None for all, and has one method: `extract(image)` of a
uint8 BGR image.
"""

import contextlib
import importlib
import os
import pathlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.frames import similarity_frames
from doap_tf.matching import Features

_ALL = 100_000  # ALIKED must be told how many to look for
_RADIUS = 1.6  # of a network's keypoints, in pixels of the image that it saw


class Aliked:
    """ALIKED-n16rot: one size, upright."""

    def __init__(self, folder: str, max_keypoints: int | None):
        module = _import(folder, "nets.aliked", "ALIKED")
        with contextlib.redirect_stdout(None):
            # A threshold that all maxima pass.
            self._network = module.ALIKED(
                "aliked-n16rot", "cpu", scores_th=1e-9, n_limit=max_keypoints or _ALL
            )
        # The repository's own function is compiled for CUDA.
        self._network.desc_head.get_patches_func = _cut_patches

    def extract(self, image: np.ndarray) -> Features:
        import torch

        with torch.inference_mode():
            features, scores = self._network.extract_dense_map(_as_tensor(image))
            (points,), (responses,), _ = self._network.dkd(scores)
            (rows,), _ = self._network.desc_head(features, [points])
        height, width = image.shape[:2]
        x, y = (points.numpy().T + 1) / 2 * [[width - 1], [height - 1]]
        frames = similarity_frames(x, y, _RADIUS)
        return _features(image, frames, responses.numpy(), rows.numpy())


class R2d2:
    """R2D2 (r2d2_WASF_N16) over its image pyramid, with the scales that it finds; upright."""

    def __init__(self, folder: str, max_keypoints: int | None):
        self._max_keypoints = max_keypoints
        self._module = _import(folder, "extract", "R2D2")
        weights = pathlib.Path(folder) / "models" / "r2d2_WASF_N16.pt"
        with contextlib.redirect_stdout(None):
            self._network = self._module.load_network(str(weights))
        self._maxima = self._module.NonMaxSuppression()

    def extract(self, image: np.ndarray) -> Features:
        normalised = self._module.norm_RGB(np.ascontiguousarray(image[..., ::-1]))[None]
        points, rows, scores = (
            array.numpy()
            for array in self._module.extract_multiscale(self._network, normalised, self._maxima)
        )
        x, y, size = points.T
        frames = similarity_frames(x, y, size / 32 * _RADIUS)  # 32: the finest
        return _features(image, frames, scores, rows, self._max_keypoints)


def _features(
    image: np.ndarray,
    frames: np.ndarray,
    responses: np.ndarray,
    rows: np.ndarray,
    max_keypoints: int | None = None,
) -> Features:
    """The strongest keypoints first."""
    order = np.argsort(-responses, kind="stable")[:max_keypoints]
    height, width = image.shape[:2]
    responses = responses[order].astype(np.float32)
    return Features(frames[order], responses, rows[order], cv2.NORM_L2, (width, height))


def _import(folder: str, name: str, peer: str) -> types.ModuleType:
    try:
        with _first_in_path(folder), contextlib.redirect_stdout(None):
            return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"{peer} cannot be imported from {folder} ({error}): give the folder of its "
            "repository, and install PyTorch with `pip install '.[peers]'`."
        ) from error


@contextlib.contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    """Forgets what was imported from `folder`: both repositories call their packages `nets`."""
    known, folder = set(sys.modules), os.path.abspath(folder)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(folder + os.sep):
                del sys.modules[name]


def _as_tensor(image: np.ndarray) -> Any:
    import torch

    colours = np.ascontiguousarray(image[..., ::-1].transpose(2, 0, 1)[None], np.float32)
    return torch.from_numpy(colours / 255)


def _cut_patches(maps: Any, points: Any, side: int) -> Any:
    """Patches [N, C, side, side] around points [N, 2] of maps [C, H, W], zeros outside."""
    import torch

    before, after = (side - 1) // 2, side // 2
    padded = torch.nn.functional.pad(maps, (before, after, before, after))
    x, y = (points[:, axis, None, None] + torch.arange(side) for axis in (0, 1))
    return padded[:, y.transpose(1, 2), x].transpose(0, 1)
