"""Running a dense network on images of any size, by LiteRT."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import cv2
import numpy as np

from doap_tf import runs, tflite_metadata
from doap_tf.counts import count
from doap_tf.interpreters import Interpreters
from doap_tf.metrics.distances import NORM_HAMMING, NORM_L2, descriptor_size
from doap_tf.readers.images import ImageLike, as_grey

_LARGEST_TILE = 1280  # side in pixels, a multiple of all strides, besides the margins
_KEPT_PIXELS = 1 << 22  # of all tiles whose interpreters are kept


class ImageMaps(NamedTuple):
    """What a dense network makes of one image.

    Attributes:
        scores: Logits of its pixels as keypoints, float32 [H, W].
        features: Maps of features, float32 [ceil(H / s), ceil(W / s), C], one for each stride s.
    """

    scores: np.ndarray
    features: list[np.ndarray]

    def __repr__(self) -> str:
        height, width = self.scores.shape
        return f"ImageMaps(image of {width}×{height}, {count(len(self.features), 'feature map')})"


class DenseReader:
    """Reads whole images with a dense network, without TensorFlow.

    A large image is read in tiles that overlap by what the network sees around a pixel: memory is
    bounded, and the maps are those of the whole image.

    Args:
        model: A `.tflite` file that `convert_dense_to_tflite` made, or a training directory with
            one.

    Attributes:
        norm: `cv2.NORM_L2` or `cv2.NORM_HAMMING`.
        dimension: Number of values or bits of a descriptor.
        weights_sha256: Hash of the network's weights.
        precision: What it computes in: `"float32"`, `"float16"` or `"int8"`.
    """

    backend = "litert"

    def __init__(self, model: str | os.PathLike):
        path = runs.model_file(model, runs.DENSE)
        with tflite_metadata.opened(path, "DenseNetwork") as (content, metadata):
            self._strides: list[int] = metadata["feature_strides"]
            self._margin: int = metadata["margin"]
            self.norm = NORM_HAMMING if metadata["head"] == "binary" else NORM_L2
            self.dimension: int = metadata["output_dim"]
            self.weights_sha256: str = metadata["weights_sha256"]
            self.precision: str = metadata.get("precision", "float32")
            # By the shape of a tile: to allocate takes as long as to run.
            self._readers = Interpreters(content, _KEPT_PIXELS)
            self._point_interpreters = Interpreters(content)
            self._point_runner()

    def __repr__(self) -> str:
        return f"DenseReader({descriptor_size(self.norm, self.dimension)}, {self.precision})"

    def read(self, image: ImageLike) -> ImageMaps:
        """Reads an image that `as_grey` takes."""
        image = as_grey(image)
        mean, deviation = (float(value[0, 0]) for value in cv2.meanStdDev(image))
        statistics = np.array([[mean, deviation]], np.float32)
        below, right = (-side % self._strides[-1] for side in image.shape)
        padded = np.full((image.shape[0] + below, image.shape[1] + right), mean, np.float32)
        padded[: image.shape[0], : image.shape[1]] = image
        maps: dict[int, np.ndarray] = {}
        with self._readers.lock:
            for rows, columns in itertools.product(*map(self._tiles, padded.shape)):
                read = self._run(padded[rows.read, columns.read], statistics)
                for stride in (1, *self._strides):
                    tile = read["scores" if stride == 1 else f"features{stride}"][0]
                    height, width = (side // stride for side in padded.shape)
                    if tile.shape[:2] == (height, width):
                        maps[stride] = tile
                        continue
                    if stride not in maps:
                        maps[stride] = np.empty((height, width, tile.shape[-1]), np.float32)
                    inner = tile[rows.inside(stride), columns.inside(stride)]
                    maps[stride][rows.kept(stride), columns.kept(stride)] = inner
        scores = maps.pop(1)[: image.shape[0], : image.shape[1], 0]
        return ImageMaps(scores, list(maps.values()))

    def sample(self, maps: ImageMaps, points: np.ndarray) -> np.ndarray:
        """Returns the values of all maps of features at points, float32 [N, C].

        Args:
            maps: What `read` made of the image.
            points: x and y [N, 2], pixel centres at integers.
        """
        points = np.asarray(points, np.float64)
        sampled = [
            sample_map(features, (points + 0.5) / stride - 0.5)
            for features, stride in zip(maps.features, self._strides, strict=True)
        ]
        return np.concatenate(sampled, axis=1)

    def describe(self, sampled: np.ndarray) -> np.ndarray:
        """Describes points of an image.

        Args:
            sampled: What `sample` returns.

        Returns:
            float32 [N, D], or packed bits, uint8 [N, bits / 8].
        """
        if not len(sampled):
            columns = self.dimension if self.norm == NORM_L2 else self.dimension // 8
            return np.empty((0, columns), np.float32 if self.norm == NORM_L2 else np.uint8)
        with self._point_interpreters.lock:
            return self._point_runner()(sampled=sampled)["descriptors"]

    def _tiles(self, side: int) -> list[_Span]:
        """Covers a side of an image, in pixels, by tiles that are read with the same margins."""
        if side <= _LARGEST_TILE + 2 * self._margin:
            return [_Span(0, side, slice(0, side))]
        length = _LARGEST_TILE + 2 * self._margin
        spans = []
        for start in range(0, side, _LARGEST_TILE):
            first = min(max(start - self._margin, 0), side - length)
            stop = min(start + _LARGEST_TILE, side)
            spans.append(_Span(start, stop, slice(first, first + length)))
        return spans

    def _run(self, tile: np.ndarray, statistics: np.ndarray) -> dict[str, np.ndarray]:
        run = self._readers.get(tile.shape, _image_runner, tile.size)
        return run(images=tile[np.newaxis, ..., np.newaxis], statistics=statistics)

    def _point_runner(self) -> Callable[..., dict[str, np.ndarray]]:
        return self._point_interpreters.get(
            "any shape", lambda interpreter: interpreter.get_signature_runner("describe")
        )


def _image_runner(interpreter: Any) -> Callable[..., dict[str, np.ndarray]]:
    interpreter.allocate_tensors()  # here LiteRT announces its delegate, and not when it runs
    return interpreter.get_signature_runner("read")


class _Span(NamedTuple):
    """Pixels from `start` to `stop` along a side of an image, and those that are read for them."""

    start: int
    stop: int
    read: slice

    def kept(self, stride: int) -> slice:
        """Cells of the whole map that this span gives."""
        return slice(self.start // stride, self.stop // stride)

    def inside(self, stride: int) -> slice:
        """The same cells in the map of what is read."""
        first = self.read.start
        return slice((self.start - first) // stride, (self.stop - first) // stride)


def sample_map(features: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Bilinear values of a map [H, W, C] at cells, x and y [N, 2]; [N, C].

    Beyond the outermost centres they are those of the border.
    """
    height, width, channels = features.shape
    limits = np.array([width, height]) - 1
    cells = np.clip(cells, 0, limits)
    corner = np.minimum(cells.astype(int), np.maximum(limits - 1, 0))
    right, down = (cells - corner).astype(np.float32).T[..., np.newaxis]
    values = features.reshape(-1, channels)
    index = corner[:, 1] * width + corner[:, 0]

    def along(index: np.ndarray) -> np.ndarray:
        one = values.take(index, axis=0)
        two = values.take(index + min(width - 1, 1), axis=0)
        two -= one
        two *= right
        two += one
        return two

    above, below = along(index), along(index + min(height - 1, 1) * width)
    below -= above
    below *= down
    below += above
    return below
