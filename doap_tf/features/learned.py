"""Keypoints found by a network that scores every pixel, over an image pyramid."""

import functools
import hashlib
import itertools
import math
import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from doap_tf import runs, tflite_metadata
from doap_tf.catalogue import ENTRIES
from doap_tf.errors import InputError
from doap_tf.features.keypoint_maxima import SMALLEST_SIDE, STEP, THRESHOLD, network_margin
from doap_tf.features.pyramid_levels import BLUR
from doap_tf.features.scale_space import Points
from doap_tf.features.score_maxima import score_maxima
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded

_STRIP_PIXELS = 1 << 18  # that run through the network at once: what it computes stays in the cache
_KEPT_SHAPES = 16  # of strips: those of images of one size
_STRIP_ROWS = 64  # at least, for very wide images


class LearnedDetector:
    """Detects the maxima of a network's scores at every level of an image pyramid.

    A structure may be found at several levels. If only the strongest stayed, right matches would be
    fewer, and of no more places (docs/experiments/learned_keypoints.md).

    The network runs by LiteRT, without TensorFlow, in strips: memory is bounded, and the scores are
    those of the whole image.

    Args:
        model: A `.tflite` file that `convert_keypoints_to_tflite` made, or a training directory
            with one; by default the network that ships.
        threshold: Least score of a keypoint, a logit: above 0 the network would rather have the
            keypoint than not.
    """

    def __init__(self, model: str | os.PathLike | None = None, threshold: float = THRESHOLD):
        from ai_edge_litert.interpreter import Interpreter

        path = _file(model)
        try:
            content = path.read_bytes()
            metadata = tflite_metadata.read(content)
            if metadata.get("network") != "KeypointNetwork":
                raise InputError(f"{path} holds no keypoint network: it describes patches.")
            self._radius: float = metadata["radius"]
            self._stride: int = metadata["stride"]
            self._margin = network_margin(self._stride, metadata["receptive_field"])
            self._open = functools.partial(Interpreter, model_content=content, num_threads=cores())
            interpreter = self._open()
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"cannot read the network {path}: {error.strerror}.") from error
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{path} is not a .tflite file of doap_tf ({error}): export the network again."
            ) from error
        if metadata.get("image_size"):
            height, width = metadata["image_size"]
            raise InputError(
                f"{path} takes images of {height}x{width} only: export it without an image size."
            )
        self._threshold = threshold
        self._input = interpreter.get_input_details()[0]["index"]
        self._output = interpreter.get_output_details()[0]["index"]
        self._lock = threading.Lock()  # an interpreter serves one thread at a time
        # By the shape of a strip, the last used at the end: to allocate takes as long as to run.
        self._interpreters: dict[tuple[int, ...], Any] = {}
        self.weights_sha256 = hashlib.sha256(content).hexdigest()
        with stderr_discarded():  # LiteRT announces its delegate
            self._run(np.zeros((self._stride, self._stride)))

    def settings(self) -> dict[str, float]:
        """What keypoints depend on besides the weights."""
        return {"threshold": self._threshold}

    def detect(self, image: np.ndarray, mask: np.ndarray | None = None) -> Points:
        """Finds keypoints in an image, uint8 [H, W], where the mask [H, W] is not zero.

        Their σ is the radius for which the network was trained times the scale of their level.
        """
        height, width = image.shape
        levels = []
        for number, level in enumerate(_pyramid(image)):
            x, y, score = score_maxima(level, self._scores(level), self._threshold)
            x = (x + 0.5) * (width / level.shape[1]) - 0.5
            y = (y + 0.5) * (height / level.shape[0]) - 0.5
            levels.append((x, y, np.full(len(x), self._radius * STEP**number), score))
        points = Points(*(np.concatenate(column) for column in zip(*levels, strict=True)))
        if mask is None:
            return points
        kept = mask[np.rint(points.y).astype(int), np.rint(points.x).astype(int)] > 0
        return Points(*(column[kept] for column in points))

    def _scores(self, image: np.ndarray) -> np.ndarray:
        """Scores every pixel: float32 [H, W]."""
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
        with self._lock:
            for start in range(0, len(scores), rows):
                start = min(start, len(scores) - rows)  # strips of one shape
                strip = self._run(padded[start : start + rows + 2 * margin])
                scores[start : start + rows] = strip[margin:-margin, margin : margin + width]
        return scores[:height]

    def _run(self, image: np.ndarray) -> np.ndarray:
        images = image.astype(np.float32)[np.newaxis, ..., np.newaxis]
        interpreter = self._interpreters.pop(images.shape, None)
        if interpreter is None:
            interpreter = self._open()
            interpreter.resize_tensor_input(self._input, images.shape)
            interpreter.allocate_tensors()
            while len(self._interpreters) >= _KEPT_SHAPES:
                del self._interpreters[next(iter(self._interpreters))]
        self._interpreters[images.shape] = interpreter
        interpreter.set_tensor(self._input, images)
        interpreter.invoke()
        return interpreter.get_tensor(self._output)[0, ..., 0]


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
