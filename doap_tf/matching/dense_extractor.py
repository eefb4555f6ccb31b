"""Features of a network that reads the whole image, finds keypoints and describes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors.pooled_descriptor import PooledDescriptor
from doap_tf.errors import InputError, is_out_of_memory
from doap_tf.features.dense_pyramid import LEVELS, RADIUS, SMALLER_LEVEL, SMALLEST_SIDE
from doap_tf.features.dense_reader import DenseReader, ImageMaps
from doap_tf.features.detectors import check_mask
from doap_tf.features.enlarging import enlarge, enlarging_factor
from doap_tf.features.frames import as_frames, radii, similarity_frames
from doap_tf.features.orientation import orient
from doap_tf.features.score_maxima import score_maxima
from doap_tf.matching.feature2d import Feature2D
from doap_tf.matching.image_features import Features, unit_rows
from doap_tf.readers.images import ImageLike, as_grey
from doap_tf.zoo import from_pretrained, load_descriptor
from doap_tf.zoo.loading import joined_names

_ROWS = 4096  # keypoints that are described at once
_PATCH_SHARE = 0.3  # of the squared length of rows of values: docs/experiments/context.md


class DenseExtractor(Feature2D):
    """An `Extractor` that detects and describes with one network of whole images.

    A descriptor knows the surroundings of its keypoint and therefore survives changes of light,
    season and sensor better than that of a patch. It stands upright: images that are turned against
    each other by more than about 30 degrees do not match.

    The network runs by LiteRT on the image, which is enlarged to 1.5 megapixels (by √2 at most) if
    it has fewer, and on smaller ones; a keypoint is described by the level that found it and, with
    half of the weight, by the next smaller one. `NETWORK+NETWORK` names a network of patches behind
    it, such as `"doap-dense-128+doap-fast-128"`, whose descriptors stand beside the others.

    Args:
        model: A name of `list_pretrained("extractor")`, a `.tflite` file that
            `convert_dense_to_tflite` made, or a training directory with one; with `+` and what
            `load_descriptor` takes for patches.
        max_keypoints: Keep this many of the strongest keypoints; None or 0 for all.
        max_image_size: Images whose longer side has more pixels are shrunk to it; None or 0: never.
        enlarge: Whether images of less than 1.5 megapixels are enlarged, which takes longer and
            makes positions more accurate.
        oriented: Whether patches follow the dominant gradient or stand upright as the maps do.
        precision: Of a network of whole images that ships, `"int8"`, `"float16"` or `"float32"`;
            files compute in what they were exported in.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        max_keypoints: int | None = 8192,
        max_image_size: int | None = None,
        enlarge: bool = True,
        oriented: bool = False,
        precision: str | None = None,
    ):
        for name, number in (("max_keypoints", max_keypoints), ("max_image_size", max_image_size)):
            if number is not None and number < 0:
                raise InputError(f"{name} must not be negative, but is {number}.")
        self.name = str(model)
        self.max_keypoints = max_keypoints or None
        self.max_image_size = max_image_size or None
        self.enlarge = enlarge
        whole, of_patches = joined_names(model)
        self._reader = (
            from_pretrained(whole, precision=precision)
            if whole in ENTRIES or precision
            else DenseReader(whole)
        )
        if not isinstance(self._reader, DenseReader):
            raise InputError(f"{whole} reads patches, not whole images: use DescriptorExtractor.")
        self._patches: PooledDescriptor | None = None
        if of_patches:
            self._patches = PooledDescriptor(load_descriptor(of_patches), None, _ROWS)
            if self._patches.norm != self._reader.norm:
                raise InputError(f"{model} joins values and bits: both must be of one kind.")
        self.oriented = oriented and self._patches is not None

    def __repr__(self) -> str:
        return f"DenseExtractor({self.name}, max_keypoints={self.max_keypoints})"

    @property
    def norm(self) -> int:
        """`cv2.NORM_L2` or `cv2.NORM_HAMMING`."""
        return self._reader.norm

    @property
    def dimension(self) -> int:
        """Number of values or bits of a descriptor."""
        return self._reader.dimension + (self._patches.dimension if self._patches else 0)

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first."""
        grey = as_grey(image)
        levels = self._levels(grey)
        keypoints = [score_maxima(level.image, level.maps.scores) for level in levels]
        numbers = np.repeat(np.arange(len(levels)), [len(scores) for _, _, scores in keypoints])
        columns, rows, scores = (np.concatenate(part) for part in zip(*keypoints, strict=True))
        points = np.stack([columns, rows], axis=1)
        scales = np.stack([level.scale for level in levels])[numbers]
        centres = (points + 0.5) * scales - 0.5
        order = np.argsort(-scores, kind="stable")
        if mask is not None:
            check_mask(mask, grey)
            column, row = np.rint(centres[order]).astype(int).T
            order = order[np.asarray(mask)[row, column] != 0]
        order = order[: self.max_keypoints]
        x, y = centres[order].T
        frames = similarity_frames(x, y, RADIUS * scales[order].mean(axis=1))
        if self.oriented:
            frames = orient(grey, frames)
        rows = self._describe(levels, numbers[order], points[order], grey, frames)
        responses = scores[order].astype(np.float32)
        return Features(frames, responses, rows, self.norm, grey.shape[::-1])

    def describe(
        self, image: ImageLike, frames: np.ndarray, responses: np.ndarray | None = None
    ) -> Features:
        """Describes the centres of frames [N, 2, 3], in order, from the level nearest their radius.

        Shapes and orientations of the frames matter to patches only.
        """
        grey, frames = as_grey(image), as_frames(frames)
        levels = self._levels(grey)
        scales = np.stack([level.scale for level in levels])
        octaves = np.log2(radii(frames)[:, np.newaxis] / (RADIUS * scales.mean(axis=1)))
        numbers = np.abs(octaves).argmin(axis=1)
        points = (frames[:, :, 2] + 0.5) / scales[numbers] - 0.5
        rows = self._describe(levels, numbers, points, grey, frames)
        if responses is None:
            responses = np.zeros(len(frames), np.float32)
        return Features(frames, responses, rows, self.norm, grey.shape[::-1])

    def settings(self) -> dict[str, Any]:
        """As for `Extractor`."""
        settings: dict[str, Any] = {
            "descriptor": self.name,
            "weights_sha256": self._reader.weights_sha256,
            "precision": self._reader.precision,
            "max_keypoints": self.max_keypoints,
            "enlarge": self.enlarge,
            "smaller_level": SMALLER_LEVEL,
            **({"max_image_size": self.max_image_size} if self.max_image_size else {}),
        }
        if self._patches is not None:
            descriptor = self._patches.descriptor
            settings["oriented"] = self.oriented
            settings["patches"] = {
                "weights_sha256": getattr(descriptor, "weights_sha256", None),
                "precision": getattr(descriptor, "precision", None),
                "share": _PATCH_SHARE,
            }
        return settings

    def _levels(self, image: np.ndarray) -> list[_Level]:
        """Reads an image, enlarged if it is small and within `max_image_size`, and smaller ones."""
        size = np.array(image.shape[::-1])
        factor = enlarging_factor(image.size) if self.enlarge else 1.0
        factor = min(factor, (self.max_image_size or np.inf) / size.max())
        levels: list[_Level] = []
        for number in range(LEVELS):
            width, height = np.maximum(1, np.rint(size * factor / 2**number)).astype(int).tolist()
            if levels and min(width, height) < SMALLEST_SIDE:
                break
            if width > image.shape[1] or height > image.shape[0]:
                level = enlarge(image, (width, height))
            else:
                if (width, height) != image.shape[::-1]:
                    image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
                level = image
            levels.append(_Level(level, self._read(level), size / (width, height)))
        return levels

    def _read(self, image: np.ndarray) -> ImageMaps:
        try:
            return self._reader.read(image)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            height, width = image.shape
            raise InputError(
                f"an image of {width} × {height} pixels needs more memory than there is: give a "
                "max_image_size."
            ) from error

    def _describe(
        self,
        levels: Sequence[_Level],
        numbers: np.ndarray,
        points: np.ndarray,
        image: np.ndarray,
        frames: np.ndarray,
    ) -> np.ndarray:
        """Describes points [N, 2], each in pixels of its level of the given number [N].

        The patches of frames [N, 2, 3] of the whole image are described as well where they are to.
        """
        described = []
        for start in range(0, max(1, len(points)), _ROWS):
            rows = slice(start, start + _ROWS)
            sampled = self._sample(levels, numbers[rows], points[rows])
            described.append(self._reader.describe(sampled))
        joined = np.concatenate(described)
        if self._patches is None:
            return joined
        of_patches = self._patches.describe_frames(image, frames)
        if self.norm == cv2.NORM_L2:
            joined *= (1 - _PATCH_SHARE) ** 0.5
            of_patches = _PATCH_SHARE**0.5 * unit_rows(of_patches, self.norm)
        return np.concatenate([joined, of_patches], axis=1)

    def _sample(
        self, levels: Sequence[_Level], numbers: np.ndarray, points: np.ndarray
    ) -> np.ndarray:
        """Values of the maps at points, with those of the next smaller level; float32 [N, C]."""
        parts = []
        for number, level in enumerate(levels):
            own = points[numbers == number]
            sampled = self._reader.sample(level.maps, own)
            for smaller in levels[number + 1 : number + 2]:
                there = (own + 0.5) * (level.scale / smaller.scale) - 0.5
                sampled += SMALLER_LEVEL * self._reader.sample(smaller.maps, there)
                sampled /= 1 + SMALLER_LEVEL
            parts.append(sampled)
        order = np.argsort(numbers, kind="stable")
        return np.concatenate(parts)[np.argsort(order)]


class _Level(NamedTuple):
    """An image of the pyramid, what the network reads in it, pixels of the original in x and y."""

    image: np.ndarray
    maps: ImageMaps
    scale: np.ndarray
