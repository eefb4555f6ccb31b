"""Keypoints with descriptors of their own: the networks ALIKED, R2D2 and XFeat.

The networks are imported from folders that hold their repositories, github.com/Shiaoming/ALIKED,
github.com/naver/r2d2 and github.com/verlab/accelerated_features, with their weights, and need
PyTorch and torchvision. Each class takes the folder and the number of the strongest keypoints to
keep, None for all, and is an `Extractor` that describes keypoints of its own.
"""

import abc
import contextlib
import importlib
import os
import pathlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import cv2
import numpy as np

from doap_tf.errors import InputError, error_line
from doap_tf.evaluation.peer_extractor import RADIUS, PeerExtractor
from doap_tf.features.frames import similarity_frames
from doap_tf.files import contents_sha256
from doap_tf.matching import Features
from doap_tf.readers.images import ImageLike, as_colour

_ALL = 100_000  # for those that must be told how many to look for


class _Peer(PeerExtractor):
    """What the peers of folders share.

    Args:
        weights: The file of the weights.
        max_keypoints: Keep this many of the strongest; None for all.
    """

    def __init__(self, weights: pathlib.Path, max_keypoints: int | None):
        sha256 = contents_sha256(weights) if weights.is_file() else None
        super().__init__(type(self).__name__, sha256, max_keypoints)

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first. There are no masks."""
        if mask is not None:
            raise InputError(f"{self.name} takes no mask.")
        return self._extract(as_colour(image))

    @abc.abstractmethod
    def _extract(self, image: np.ndarray) -> Features:
        """Detects and describes."""


class Aliked(_Peer):
    """ALIKED-n16rot: one size, upright."""

    def __init__(self, folder: str, max_keypoints: int | None):
        weights = pathlib.Path(folder) / "models" / "aliked-n16rot.pth"
        super().__init__(weights, max_keypoints)
        module = _import(folder, "nets.aliked", "ALIKED")
        with _reading(weights):
            # A threshold that all maxima pass.
            self._network = module.ALIKED(
                "aliked-n16rot", "cpu", scores_th=1e-9, n_limit=max_keypoints or _ALL
            )
        # The repository's own function is compiled for CUDA.
        self._network.desc_head.get_patches_func = _cut_patches

    def _extract(self, image: np.ndarray) -> Features:
        import torch

        with torch.inference_mode():
            features, scores = self._network.extract_dense_map(_as_tensor(image))
            (points,), (responses,), _ = self._network.dkd(scores)
            (rows,), _ = self._network.desc_head(features, [points])
        height, width = image.shape[:2]
        x, y = (points.numpy().T + 1) / 2 * [[width - 1], [height - 1]]
        frames = similarity_frames(x, y, RADIUS)
        return _features(image, frames, responses.numpy(), rows.numpy())


class R2d2(_Peer):
    """R2D2 (r2d2_WASF_N16) over its image pyramid, with the scales that it finds; upright."""

    def __init__(self, folder: str, max_keypoints: int | None):
        weights = pathlib.Path(folder) / "models" / "r2d2_WASF_N16.pt"
        super().__init__(weights, max_keypoints)
        self._module = _import(folder, "extract", "R2D2")
        with _reading(weights):
            self._network = self._module.load_network(str(weights))
        self._maxima = self._module.NonMaxSuppression()

    def _extract(self, image: np.ndarray) -> Features:
        normalised = self._module.norm_RGB(np.ascontiguousarray(image[..., ::-1]))[None]
        points, rows, scores = (
            array.numpy()
            for array in self._module.extract_multiscale(self._network, normalised, self._maxima)
        )
        x, y, size = points.T
        frames = similarity_frames(x, y, size / 32 * RADIUS)  # 32: the finest
        return _features(image, frames, scores, rows, self._max_keypoints)


class XFeat(_Peer):
    """XFeat: one size, upright."""

    def __init__(self, folder: str, max_keypoints: int | None):
        weights = pathlib.Path(folder) / "weights" / "xfeat.pt"
        super().__init__(weights, max_keypoints)
        module = _import(folder, "modules.xfeat", "XFeat")
        with _reading(weights):
            # A threshold that all maxima pass.
            self._network = module.XFeat(
                str(weights), top_k=max_keypoints or _ALL, detection_threshold=1e-9
            )

    def _extract(self, image: np.ndarray) -> Features:
        (result,) = self._network.detectAndCompute(_as_tensor(image))
        points, responses, rows = (
            result[name].cpu().numpy() for name in ("keypoints", "scores", "descriptors")
        )
        x, y = points.T
        return _features(image, similarity_frames(x, y, RADIUS), responses, rows)


PEERS: dict[str, Callable[[str, int | None], Any]] = {
    "aliked": Aliked,
    "r2d2": R2d2,
    "xfeat": XFeat,
}


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
def _reading(weights: pathlib.Path) -> Iterator[None]:
    """Turns what PyTorch raises for a file of weights into one line; nothing is printed."""
    try:
        with contextlib.redirect_stdout(None):
            yield
    except Exception as error:  # many kinds
        raise InputError(
            f"{weights} is missing or damaged ({error_line(error)}): fetch it again."
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
