"""Keypoints of a network that reads whole images, found at all levels of its pyramid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np

from doap_tf.errors import InputError, is_out_of_memory
from doap_tf.features.dense_pyramid import LEVELS, RADIUS, SMALLEST_SIDE
from doap_tf.features.dense_reader import DenseReader, ImageMaps
from doap_tf.features.enlarging import enlarge
from doap_tf.features.scale_space import Points
from doap_tf.features.score_maxima import score_maxima
from doap_tf.readers.images import ImageLike, as_grey

# An image with fewer pixels is enlarged: it has fewer maxima than most want keypoints.
LEAST_PIXELS = 500_000
_LARGEST_FACTOR = 3.0


class Level(NamedTuple):
    """An image of the pyramid, what the network reads in it, pixels of the original in x and y."""

    image: np.ndarray
    maps: ImageMaps
    scale: np.ndarray


class LevelKeypoints(NamedTuple):
    """Keypoints of all levels: `numbers` of their levels, `points` [N, 2] in pixels of those.

    `centres` [N, 2] and `radii` are in pixels of the original; `scores` are logits.
    """

    numbers: np.ndarray
    points: np.ndarray
    centres: np.ndarray
    radii: np.ndarray
    scores: np.ndarray

    def take(self, rows: np.ndarray | slice) -> LevelKeypoints:
        """Some of the keypoints, in the order of `rows`."""
        return LevelKeypoints(*(column[rows] for column in self))


class DenseDetector:
    """Detects keypoints for descriptors of patches by a network of whole images.

    Images of less than half a megapixel are enlarged, by 3 at most.

    Args:
        reader: The network.
    """

    def __init__(self, reader: DenseReader):
        self._reader = reader
        self.weights_sha256 = reader.weights_sha256

    def __repr__(self) -> str:
        return f"DenseDetector({self._reader})"

    def settings(self) -> dict[str, object]:
        """What keypoints depend on besides the weights."""
        return {"precision": self._reader.precision, "radius": RADIUS}

    def detect(self, image: ImageLike, mask: np.ndarray | None = None) -> Points:
        """Finds keypoints in an image that `as_grey` takes, where the mask [H, W] is not zero."""
        image = as_grey(image)
        factor = float(np.clip((LEAST_PIXELS / max(image.size, 1)) ** 0.5, 1, _LARGEST_FACTOR))
        found = level_keypoints(read_levels(self._reader, image, factor), mask)
        x, y = found.centres.T
        return Points(x, y, found.radii, found.scores)


def read_levels(
    reader: DenseReader,
    image: np.ndarray,
    factor: float = 1.0,
    max_image_size: int | None = None,
) -> list[Level]:
    """Reads an image, uint8 [H, W], and smaller ones.

    Args:
        reader: The network.
        image: The image.
        factor: By which its sides are enlarged first.
        max_image_size: The longer side of the first level has at most so many pixels.
    """
    size = np.array(image.shape[::-1])
    factor = min(factor, (max_image_size or np.inf) / size.max())
    levels: list[Level] = []
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
        levels.append(Level(level, _read(reader, level), size / (width, height)))
    return levels


def level_keypoints(levels: Sequence[Level], mask: np.ndarray | None = None) -> LevelKeypoints:
    """Finds the keypoints of all levels, the strongest first, where the mask is not zero."""
    found = [score_maxima(level.image, level.maps.scores) for level in levels]
    numbers = np.repeat(np.arange(len(levels)), [len(scores) for _, _, scores in found])
    columns, rows, scores = (np.concatenate(part) for part in zip(*found, strict=True))
    points = np.stack([columns, rows], axis=1)
    scales = np.stack([level.scale for level in levels])[numbers]
    centres = (points + 0.5) * scales - 0.5
    order = np.argsort(-scores, kind="stable")
    if mask is not None:
        column, row = np.rint(centres[order]).astype(int).T
        order = order[np.asarray(mask)[row, column] != 0]
    radii = RADIUS * scales.mean(axis=1)
    return LevelKeypoints(numbers, points, centres, radii, scores).take(order)


def _read(reader: DenseReader, image: np.ndarray) -> ImageMaps:
    try:
        return reader.read(image)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        height, width = image.shape
        raise InputError(
            f"an image of {width} × {height} pixels needs more memory than there is: give a "
            "max_image_size."
        ) from error
