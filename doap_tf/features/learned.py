"""Keypoints found by a network that scores every pixel, over an image pyramid."""

import functools
import hashlib
import itertools
import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from doap_tf import runs, tflite_metadata
from doap_tf.catalogue import ENTRIES
from doap_tf.features.keypoint_maxima import (
    DEVIATION,
    LEAST_DEVIATION,
    MEAN,
    SMALLEST_SIDE,
    STEP,
    THRESHOLD,
    network_margin,
)
from doap_tf.features.pyramid_levels import BLUR
from doap_tf.features.scale_space import Points
from doap_tf.features.score_maxima import score_maxima
from doap_tf.interpreters import Interpreters
from doap_tf.readers.images import ImageLike, as_grey

_STRIP_PIXELS = 1 << 18  # that run through the network at once: what it computes stays in the cache
_KEPT_SHAPES = 16  # of strips: those of images of one size
_STRIP_ROWS = 64  # at least, for very wide images


class LearnedDetector:
    """Detects the maxima of a network's scores at every level of an image pyramid.

    A structure may be found at several levels. If only the strongest stayed, right matches would be
    fewer, and of no more places (docs/experiments/learned_keypoints.md).

    The network is given every image with the same brightness and contrast. It runs by LiteRT,
    without TensorFlow, in strips: memory is bounded, and the scores are those of the whole image.

    Args:
        model: A `.tflite` file that `convert_keypoints_to_tflite` made, or a training directory
            with one; by default the network that ships.
        threshold: Least score of a keypoint, a logit: above 0 the network would rather have the
            keypoint than not.
    """

    def __init__(self, model: str | os.PathLike | None = None, threshold: float = THRESHOLD):
        path = _file(model)
        with tflite_metadata.opened(path, "KeypointNetwork") as (content, metadata):
            self._radius: float = metadata["radius"]
            self._stride: int = metadata["stride"]
            self._margin = network_margin(self._stride, metadata["receptive_field"])
            # To allocate takes as long as to run.
            self._interpreters = Interpreters(content, _KEPT_SHAPES)
            self._run(np.zeros((self._stride, self._stride), np.float32))
        self._threshold = threshold
        self.weights_sha256 = hashlib.sha256(content).hexdigest()

    def settings(self) -> dict[str, float]:
        """What keypoints depend on besides the weights."""
        return {"threshold": self._threshold, "deviation": DEVIATION}

    def __repr__(self) -> str:
        return f"LearnedDetector(threshold={self._threshold:g})"

    def detect(self, image: ImageLike, mask: np.ndarray | None = None) -> Points:
        """Finds keypoints in an image that `as_grey` takes, where the mask [H, W] is not zero.

        Their σ is the radius for which the network was trained times the scale of their level.
        """
        image = as_grey(image)
        height, width = image.shape
        mean, deviation = (float(value[0, 0]) for value in cv2.meanStdDev(image))
        factor = DEVIATION / max(deviation, LEAST_DEVIATION)
        levels = []
        for number, level in enumerate(_pyramid(image)):
            scores = self._scores(level, factor, MEAN - factor * mean)
            x, y, score = score_maxima(level, scores, self._threshold)
            x = (x + 0.5) * (width / level.shape[1]) - 0.5
            y = (y + 0.5) * (height / level.shape[0]) - 0.5
            levels.append((x, y, np.full(len(x), self._radius * STEP**number), score))
        points = Points(*(np.concatenate(column) for column in zip(*levels, strict=True)))
        if mask is None:
            return points
        kept = mask[np.rint(points.y).astype(int), np.rint(points.x).astype(int)] > 0
        return Points(*(column[kept] for column in points))

    def _scores(self, image: np.ndarray, factor: float = 1, offset: float = 0) -> np.ndarray:
        """Scores every pixel of an image times a factor plus an offset: float32 [H, W]."""
        height, width = image.shape
        margin = self._margin
        below, right = -height % self._stride, -width % self._stride
        padded = cv2.copyMakeBorder(
            image, margin, margin + below, margin, margin + right, cv2.BORDER_REFLECT_101
        )
        scores = np.empty((height + below, width), np.float32)
        most = max(_STRIP_PIXELS // padded.shape[1], _STRIP_ROWS) - 2 * margin
        blocks = len(scores) // self._stride
        strips = math.ceil(blocks / max(most // self._stride, 1))
        rows = math.ceil(blocks / strips) * self._stride
        with self._interpreters.lock:
            for start in range(0, len(scores), rows):
                start = min(start, len(scores) - rows)  # strips of one shape
                strip = padded[start : start + rows + 2 * margin] * np.float32(factor)
                read = self._run(strip + np.float32(offset))
                scores[start : start + rows] = read[margin:-margin, margin : margin + width]
        return scores[:height]

    def _run(self, image: np.ndarray) -> np.ndarray:
        images = image[np.newaxis, ..., np.newaxis]

        def allocated(interpreter: Any) -> Any:
            interpreter.resize_tensor_input(_index(interpreter.get_input_details()), images.shape)
            interpreter.allocate_tensors()
            return interpreter

        interpreter = self._interpreters.get(images.shape, allocated)
        interpreter.set_tensor(_index(interpreter.get_input_details()), images)
        interpreter.invoke()
        return interpreter.get_tensor(_index(interpreter.get_output_details()))[0, ..., 0]


def _index(details: list[dict[str, Any]]) -> int:
    return details[0]["index"]


def open_learned(model: str | os.PathLike | None = None) -> LearnedDetector:
    """Returns the `LearnedDetector` of a model; reads a file again only if it has changed."""
    path = _file(model)
    return _open(path, path.stat().st_mtime_ns if path.exists() else 0)


@functools.lru_cache(maxsize=4)
def _open(path: pathlib.Path, modified: int) -> LearnedDetector:
    return LearnedDetector(path)


def _file(model: str | os.PathLike | None) -> pathlib.Path:
    return runs.model_file(model or ENTRIES["learned"].file(".tflite"), runs.KEYPOINTS)


def _pyramid(image: np.ndarray) -> Iterator[np.ndarray]:
    """Yields an image and smaller ones, all equally sharp if seen in their own pixels."""
    height, width = image.shape
    for level in itertools.count(1):
        yield image
        size = round(width / STEP**level), round(height / STEP**level)
        if min(size) < SMALLEST_SIDE:
            return
        smoothed = cv2.GaussianBlur(image, (0, 0), BLUR * math.sqrt(STEP**2 - 1))
        image = cv2.resize(smoothed, size, interpolation=cv2.INTER_LINEAR)
