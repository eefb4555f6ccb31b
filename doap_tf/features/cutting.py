"""Cutting square patches out of an image at affine frames, from a Gaussian pyramid.

The prefilter, stated: a patch whose longer axis steps over s image pixels from one patch pixel to
the next is sampled from the image smoothed by a Gaussian of σ_k = 0.6·√(2^k − 1) pixels, k the
smallest whole number with s ≤ 2^(k/2), and not smoothed at all where s ≤ 1. Taking the image's own
blur as 0.6 pixels, the patch's blur is thus 0.6 to 0.85 of its pixels, whatever the frame's size.

The longer axis decides because no direction may alias; the shorter axis of an ellipse is smoothed
more than it needs, by the ratio of the axes. Outside of the image its border is repeated.
"""

from __future__ import annotations

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.frames import as_frames, semi_axes

BLUR = 0.6  # σ of the blur taken to be in the image, and of the least blur in a patch; in pixels

_GRID_BLUR = 1.5  # σ, in pixels of its grid, below which a level is not decimated
# The border is repeated this far, in pixels of each grid: farther out than the Gaussian of the grid
# reaches, so that the image's values are those of an image repeated without end.
_MARGIN = 16
_CHUNK_PIXELS = 1 << 16  # of coordinates made at once: half a MB of maps stays in the cache
_FARTHEST = 30_000.0  # cv2.remap counts pixels in 16 bits


class Pyramid:
    """Smoothed copies of one image, made when first needed, that patches are cut from.

    Level k holds the image smoothed by `level_sigma(k)`, on a grid of every 2^g-th pixel, g the
    largest for which the whole blur is at least 1.5 pixels of the grid: then neither the decimation
    nor the bilinear interpolation does visible harm.

    Args:
        image: uint8 or float32 [H, W]. Patches come in the same dtype.
    """

    def __init__(self, image: np.ndarray):
        if image.ndim != 2 or image.dtype not in (np.uint8, np.float32) or not image.size:
            raise InputError(
                f"image is {image.dtype} of shape {image.shape}; wanted is a grey image, uint8 or "
                "float32 of shape [H, W]"
            )
        if max(image.shape) > _FARTHEST:
            raise InputError(
                f"image has shape {image.shape}; its sides may be {_FARTHEST:.0f} long"
            )
        self.image = np.ascontiguousarray(image)
        self._levels = [_pad(self.image, _MARGIN)]
        self._last: np.ndarray = self._levels[0].astype(np.float32)

    @staticmethod
    def level_sigma(level: int) -> float:
        """σ, in pixels of the image, by which `level` is smoothed."""
        return BLUR * np.sqrt(2.0**level - 1)

    @staticmethod
    def level_of(steps: np.ndarray) -> np.ndarray:
        """The level [N] for patches that step over `steps` [N] pixels along their longer axis."""
        # The tolerance lets a frame made for one step per pixel, in floating point, take level 0.
        exponents = np.ceil(2 * np.log2(np.maximum(steps, 1.0)) - 1e-6)
        return np.maximum(exponents, 0).astype(int)

    @staticmethod
    def _grid(level: int) -> int:
        return max(0, int(np.floor(np.log2(BLUR / _GRID_BLUR) + level / 2)))

    def _level(self, level: int) -> np.ndarray:
        while len(self._levels) <= level:
            k = len(self._levels)
            increment = np.sqrt(self.level_sigma(k) ** 2 - self.level_sigma(k - 1) ** 2)
            sigma = increment / 2 ** self._grid(k - 1)
            self._last = cv2.GaussianBlur(
                self._last, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE
            )
            if self._grid(k) > self._grid(k - 1):
                self._last = _pad(np.ascontiguousarray(self._last[::2, ::2]), _MARGIN // 2)
            integer = self.image.dtype == np.uint8
            self._levels.append(cv2.convertScaleAbs(self._last) if integer else self._last)
        return self._levels[level]

    def cut(self, frames: np.ndarray, size: int, magnification: float = 1.0) -> np.ndarray:
        """Cuts the squares [−magnification, magnification]² of `frames`.

        Args:
            frames: [N, 2, 3].
            size: pixels along a side of a patch. Pixel i is centred at (2i + 1)/size − 1 of the
                half side, so that the pixels' edges, not their centres, reach the square's edges.
            magnification: half the side over the frame's radius.

        Returns:
            [N, size, size] of the image's dtype.
        """
        if size < 1 or not magnification > 0:
            raise InputError(
                f"size {size} and magnification {magnification}; both must be positive"
            )
        frames = as_frames(frames)
        patches = np.empty((len(frames), size, size), self.image.dtype)
        centres = ((2 * np.arange(size) + 1) / size - 1) * magnification
        levels = self.level_of(semi_axes(frames)[:, 0] * 2 * magnification / size)
        # From there on all levels show the same.
        levels = np.minimum(levels, 2 * int(np.ceil(np.log2(max(self.image.shape)))) + 6)
        chunk = max(1, min(_CHUNK_PIXELS // size**2, int(_FARTHEST) // size))
        for level in np.unique(levels):
            image = self._level(level)
            chosen = np.flatnonzero(levels == level)
            maps = frames[chosen] / 2 ** self._grid(level)
            maps[:, :, 2] += _MARGIN
            for start in range(0, len(chosen), chunk):
                members = chosen[start : start + chunk]
                patches[members] = _sample(image, maps[start : start + chunk], centres)
        return patches


def _pad(image: np.ndarray, width: int) -> np.ndarray:
    return cv2.copyMakeBorder(image, width, width, width, width, cv2.BORDER_REPLICATE)


def _sample(image: np.ndarray, maps: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Bilinear samples [n, S, S] of `image` at centres × centres [S] under `maps` [n, 2, 3]."""
    # An affine map of a grid is a sum of a row and a column; a product of matrices would be as
    # short, but the threads of a BLAS get in the way of remap's.
    right, down, origin = maps.transpose(2, 1, 0)[..., None]
    along = (right * centres).astype(np.float32)
    across = (down * centres + origin).astype(np.float32)
    points = along[:, :, None, :] + across[:, :, :, None]
    if np.abs(along).max() + np.abs(across).max() > _FARTHEST:
        np.clip(points, -_FARTHEST, _FARTHEST, out=points)
    size = len(centres)
    x, y = points.reshape(2, -1, size)
    patches = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return patches.reshape(-1, size, size)


def cut_patches(
    image: np.ndarray, frames: np.ndarray, size: int, magnification: float
) -> np.ndarray:
    """Patches uint8 [N, size, size] of a grey image at `frames` [N, 2, 3], as `Pyramid.cut` does.

    Make one `Pyramid` and cut from it where an image is used more than once.
    """
    return Pyramid(image).cut(frames, size, magnification)
