"""Features of a network that reads the whole image, finds keypoints and describes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors.pooled_descriptor import PooledDescriptor
from doap_tf.errors import InputError
from doap_tf.features.dense_detector import Level, level_keypoints, read_levels
from doap_tf.features.dense_pyramid import RADIUS, SMALLER_LEVEL
from doap_tf.features.dense_reader import DenseReader
from doap_tf.features.detectors import check_mask
from doap_tf.features.enlarging import enlarging_factor
from doap_tf.features.frames import as_frames, radii, similarity_frames
from doap_tf.features.orientation import orient
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
        if mask is not None:
            check_mask(mask, grey)
        levels = self._levels(grey)
        found = level_keypoints(levels, mask).take(slice(self.max_keypoints))
        x, y = found.centres.T
        frames = similarity_frames(x, y, found.radii)
        if self.oriented:
            frames = orient(grey, frames)
        rows = self._describe(levels, found.numbers, found.points, grey, frames)
        responses = found.scores.astype(np.float32)
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

    def _levels(self, image: np.ndarray) -> list[Level]:
        factor = enlarging_factor(image.size) if self.enlarge else 1.0
        return read_levels(self._reader, image, factor, self.max_image_size)

    def _describe(
        self,
        levels: Sequence[Level],
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
        self, levels: Sequence[Level], numbers: np.ndarray, points: np.ndarray
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
