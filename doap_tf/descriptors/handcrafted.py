"""Handcrafted descriptors of patches; all but one are OpenCV's."""

import dataclasses
import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from doap_tf.descriptors.protocol import checked_patches
from doap_tf.metrics.distances import NORM_HAMMING, NORM_L2, descriptor_size
from doap_tf.parallel import parallel_map

_CHUNK = 256

# Side of a patch over the size of the SIFT keypoint at its centre, as in HPatches' script.
_SIFT_WINDOW = 5.303
# The window of VGG, BEBLID and TEBLID on SIFT keypoints, by OpenCV's documentation.
_BOX_WINDOW = 6.75
_ORB_SIDE = 32  # ORB's own patch is 31 pixels wide
_VGG_SIDE = 64
_PIXELS_SIDE = 11

_Extract = Callable[[np.ndarray], np.ndarray | None]  # a row of a patch


@dataclasses.dataclass(frozen=True, repr=False)
class HandcraftedDescriptor:
    """A descriptor that needs no training.

    Attributes:
        name: One of `HANDCRAFTED`.
        norm: `cv2.NORM_L2` or `cv2.NORM_HAMMING`.
        dimension: Number of values, or of bits.
        magnification: Side of a patch over the size of a SIFT keypoint, as is usual for it.
    """

    name: str
    norm: int
    dimension: int
    magnification: float
    _extractor: Callable[[int], _Extract]

    def __repr__(self) -> str:
        return f"HandcraftedDescriptor({self.name}, {descriptor_size(self.norm, self.dimension)})"

    def settings(self) -> dict[str, str]:
        """What its descriptors depend on."""
        return {"name": self.name}

    def describe(self, patches: np.ndarray, batch_size: int = 1024) -> np.ndarray:
        """Describes patches, each as a whole and upright, on all cores.

        Args:
            patches: uint8, or numbers in 0…255, [N, H, H], [N, H, H, 1] or [H, H], H ≥ 16.
            batch_size: Ignored: patches are described one by one.

        Returns:
            float32 [N, D], or packed bits uint8 [N, bits / 8]; zeros where OpenCV returns none.
        """
        patches = checked_patches(patches)[..., 0]
        if patches.dtype != np.uint8:
            patches = np.clip(np.rint(patches), 0, 255).astype(np.uint8)
        patches = np.ascontiguousarray(patches)
        binary = self.norm == NORM_HAMMING
        rows = np.zeros(
            (len(patches), self.dimension // 8 if binary else self.dimension),
            np.uint8 if binary else np.float32,
        )

        def fill(start: int) -> None:
            # One extractor per chunk: OpenCV's keep state and must not be shared by threads.
            extract = self._extractor(patches.shape[1])
            for place in range(start, min(start + _CHUNK, len(patches))):
                row = extract(patches[place])
                if row is not None:
                    rows[place] = row

        parallel_map(fill, range(0, len(patches), _CHUNK))
        return rows

    __call__ = describe


def _resize(patch: np.ndarray, side: int) -> np.ndarray:
    import cv2

    # Averaging over areas shrinks without aliasing, but does not enlarge smoothly.
    interpolation = cv2.INTER_AREA if len(patch) > side else cv2.INTER_LINEAR
    return cv2.resize(patch, (side, side), interpolation=interpolation)


def _whole_patch(create: Callable, side: int, keypoint_size: float, patch_side: int) -> _Extract:
    """Calls an OpenCV extractor with one upright keypoint at the centre of a patch."""
    import cv2

    extractor = create(cv2)
    keypoint = cv2.KeyPoint((side - 1) / 2, (side - 1) / 2, keypoint_size, 0)

    def extract(patch: np.ndarray) -> np.ndarray | None:
        if patch_side != side:
            patch = _resize(patch, side)
        _, rows = extractor.compute(patch, [keypoint])
        return rows[0] if rows is not None and len(rows) == 1 else None

    return extract


def _sift(side: int) -> _Extract:
    return _whole_patch(lambda cv2: cv2.SIFT_create(), side, side / _SIFT_WINDOW, side)


def _rootsift(side: int) -> _Extract:
    extract = _sift(side)

    def extract_root(patch: np.ndarray) -> np.ndarray | None:
        row = extract(patch)
        return None if row is None else np.sqrt(row / max(row.sum(), 1e-7))

    return extract_root


def _orb(side: int) -> _Extract:
    # Without a border threshold of 0, ORB drops the keypoint.
    return _whole_patch(
        lambda cv2: cv2.ORB_create(nlevels=1, edgeThreshold=0), _ORB_SIDE, _ORB_SIDE, side
    )


def _vgg(side: int) -> _Extract:
    # Without scale and orientation it reads the 64 × 64 pixels around the keypoint unchanged.
    def create(cv2: ModuleType) -> Any:
        return cv2.xfeatures2d.VGG_create(use_scale_orientation=False)

    return _whole_patch(create, _VGG_SIDE, _VGG_SIDE, side)


def _boxes(kind: str, side: int) -> _Extract:
    def create(cv2: ModuleType) -> Any:
        size = getattr(cv2.xfeatures2d, f"{kind}_SIZE_512_BITS")
        return getattr(cv2.xfeatures2d, f"{kind}_create")(1.0, size)

    return _whole_patch(create, side, side, side)


def _pixels(side: int) -> _Extract:
    """11 × 11 grey values, minus their mean, over their standard deviation."""

    def extract(patch: np.ndarray) -> np.ndarray:
        values = _resize(patch, _PIXELS_SIDE).astype(np.float32).ravel()
        values -= values.mean()
        return values / max(float(values.std()), 1e-6)

    return extract


HANDCRAFTED: dict[str, HandcraftedDescriptor] = {
    name: HandcraftedDescriptor(name, norm, dimension, magnification, extractor)
    for name, norm, dimension, magnification, extractor in (
        ("sift", NORM_L2, 128, _SIFT_WINDOW, _sift),
        ("rootsift", NORM_L2, 128, _SIFT_WINDOW, _rootsift),
        ("orb", NORM_HAMMING, 256, _SIFT_WINDOW, _orb),
        ("vgg", NORM_L2, 120, _BOX_WINDOW, _vgg),
        ("beblid", NORM_HAMMING, 512, _BOX_WINDOW, functools.partial(_boxes, "BEBLID")),
        ("teblid", NORM_HAMMING, 512, _BOX_WINDOW, functools.partial(_boxes, "TEBLID")),
        ("pixels", NORM_L2, _PIXELS_SIDE**2, _SIFT_WINDOW, _pixels),
    )
}
