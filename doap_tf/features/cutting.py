"""Cutting square patches out of an image at affine frames, from a Gaussian pyramid.

`doap_tf.features.pyramid_levels` defines the prefilter. Outside the image its border is repeated.
"""

import threading
from collections.abc import Iterator

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.features.frames import as_frames, semi_axes
from doap_tf.features.pyramid_levels import MARGIN, added_sigma, halvings, longest_step
from doap_tf.parallel import parallel_map
from doap_tf.readers.images import ImageLike, as_grey

_CHUNK_PIXELS = 1 << 19  # coordinates computed at once, 4 MB a thread
_FARTHEST = 30_000.0  # cv2.remap counts pixels in 16 bits


class Pyramid:
    """Smoothed copies of one image, computed when first needed, that patches are cut from.

    Args:
        image: uint8 or float32 [H, W]. Patches have the same dtype.
    """

    def __init__(self, image: np.ndarray):
        if image.ndim != 2 or image.dtype not in (np.uint8, np.float32) or not image.size:
            raise InputError(
                f"image is {image.dtype} of shape {image.shape}; expected a grey image, uint8 or "
                "float32 of shape [H, W]"
            )
        if max(image.shape) > _FARTHEST:
            raise InputError(
                f"image has shape {image.shape}; its sides must be ≤ {_FARTHEST:.0f}: make it "
                "smaller, such as by max_image_size."
            )
        self.image = np.ascontiguousarray(image)
        self._levels = [_pad(self.image, MARGIN)]
        self._last: np.ndarray = self._levels[0].astype(np.float32)
        # From the last level on all show the same.
        last = 2 * int(np.ceil(np.log2(max(image.shape)))) + 6
        self._longest_steps = [longest_step(level) for level in range(last)]

    def _level(self, level: int) -> np.ndarray:
        while len(self._levels) <= level:
            k = len(self._levels)
            self._last = cv2.GaussianBlur(
                self._last, (0, 0), added_sigma(k), borderType=cv2.BORDER_REPLICATE
            )
            if halvings(k) > halvings(k - 1):
                self._last = _pad(np.ascontiguousarray(self._last[::2, ::2]), MARGIN // 2)
            integer = self.image.dtype == np.uint8
            self._levels.append(cv2.convertScaleAbs(self._last) if integer else self._last)
        return self._levels[level]

    def cut(self, frames: np.ndarray, size: int, magnification: float = 1.0) -> np.ndarray:
        """Cuts the squares [−magnification, magnification]² of `frames`.

        Args:
            frames: [N, 2, 3].
            size: Side of a patch in pixels. Pixel i is centred at (2i + 1)/size − 1 of the half
                side, so that the pixels' edges, not their centres, reach the edges of the square.
            magnification: Half the side over the frame's radius.

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
        steps = semi_axes(frames)[:, 0] * 2 * magnification / size
        levels = np.searchsorted(self._longest_steps, steps)
        chunk = max(1, min(_CHUNK_PIXELS // size**2, int(_FARTHEST) // size))

        def chunks() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
            for level in np.unique(levels):
                image = self._level(level)
                chosen = np.flatnonzero(levels == level)
                maps = frames[chosen] / 2 ** halvings(level)
                maps[:, :, 2] += MARGIN
                for start in range(0, len(chosen), chunk):
                    stop = start + chunk
                    yield image, maps[start:stop], chosen[start:stop]

        scratch = threading.local()  # new memory for every chunk would take as long as its maps

        def fill(work: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
            image, maps, members = work
            if not hasattr(scratch, "points"):
                scratch.points = np.empty((2, chunk, size, size), np.float32)
                scratch.samples = np.empty((chunk, size, size), patches.dtype)
            points, samples = scratch.points[:, : len(maps)], scratch.samples[: len(maps)]
            patches[members] = _sample(image, maps, centres, points, samples)

        # Threads cut from one level while this one computes the next.
        parallel_map(fill, chunks(), cv2.getNumThreads() if len(frames) > chunk else 1)
        return patches


def _pad(image: np.ndarray, width: int) -> np.ndarray:
    return cv2.copyMakeBorder(image, width, width, width, width, cv2.BORDER_REPLICATE)


def _sample(
    image: np.ndarray,
    maps: np.ndarray,
    centres: np.ndarray,
    points: np.ndarray,
    samples: np.ndarray,
) -> np.ndarray:
    """Bilinear samples [n, S, S] of `image` at centres × centres [S] under `maps` [n, 2, 3].

    `points` [2, n, S, S] and `samples` [n, S, S] are overwritten.
    """
    # An affine map of a grid is a sum of a row and a column; a matrix product would be as short,
    # but the threads of a BLAS get in the way of remap's.
    right, down, origin = maps.transpose(2, 1, 0)[..., None]
    along = (right * centres).astype(np.float32)
    across = (down * centres + origin).astype(np.float32)
    np.add(along[:, :, None, :], across[:, :, :, None], out=points)
    if np.abs(along).max() + np.abs(across).max() > _FARTHEST:
        np.clip(points, -_FARTHEST, _FARTHEST, out=points)
    size = len(centres)
    x, y = points.reshape(2, -1, size)
    flat = samples.reshape(-1, size)
    cut = cv2.remap(image, x, y, cv2.INTER_LINEAR, flat, borderMode=cv2.BORDER_REPLICATE)
    return cut.reshape(samples.shape)


def cut_patches(
    image: ImageLike, frames: np.ndarray, size: int, magnification: float
) -> np.ndarray:
    """Cuts patches [N, size, size] at `frames` [N, 2, 3]; see `Pyramid.cut`.

    The image is grey, as for `Pyramid`, or anything else that `as_grey` takes. To cut from the same
    image more than once, make a `Pyramid`.
    """
    if not isinstance(image, np.ndarray) or image.ndim != 2:
        image = as_grey(image)
    return Pyramid(image).cut(frames, size, magnification)
