"""Networks of others that read whole images, as ONNX files."""

import os
import pathlib

import cv2
import numpy as np

from doap_tf.descriptors.third_party import onnx_session
from doap_tf.errors import InputError, one_line
from doap_tf.evaluation.peer_extractor import RADIUS, PeerExtractor
from doap_tf.features.frames import similarity_frames
from doap_tf.matching import Features
from doap_tf.readers.images import ImageLike, as_colour

_OUTPUTS = ("keypoints", "scores", "descriptors")
_MULTIPLE = 32  # of the sides of an image whose size is free


class OnnxExtractor(PeerExtractor):
    """An `Extractor` that runs an ONNX file by onnxruntime.

    Its input is an image float32 [1, C, H, W] of values 0…1, C = 1 for grey or 3 for RGB. If the
    file fixes H and W, images are resized to them; otherwise their right and lower edges are
    repeated up to multiples of 32 pixels, and keypoints there dropped. It has outputs with these
    words in their names, each with or without a first axis of 1:

    - `keypoints` [N, 2]: x, y in pixels of the input, or from −1 to 1 between its outermost pixels.
    - `scores` [N].
    - `descriptors` float [N, D] or [D, N], compared by the L2 distance; or packed bits uint8.

    Args:
        path: The file.
        max_keypoints: Keep this many of the strongest keypoints; None or 0 for all.
    """

    def __init__(self, path: str | os.PathLike, max_keypoints: int | None = None):
        self._session, sha256 = onnx_session(pathlib.Path(path))
        super().__init__(str(path), sha256, max_keypoints)
        first = self._session.get_inputs()[0]
        types = {output.name: output.type for output in self._session.get_outputs()}
        names = list(types)
        chosen = [[name for name in names if word in name.lower()] for word in _OUTPUTS]
        if len(first.shape) != 4 or first.shape[1] not in (1, 3) or not all(chosen):
            raise InputError(
                f"{path} must take an image [1, 1 or 3, H, W] and return {', '.join(_OUTPUTS)}; it "
                f"takes {list(first.shape)} and returns {', '.join(names)}."
            )
        self._outputs = [matching[0] for matching in chosen]
        self._input, self._channels = first.name, first.shape[1]
        height, width = (side if isinstance(side, int) else None for side in first.shape[2:])
        self._size = (width, height) if width and height else None
        bits = types[self._outputs[2]] == "tensor(uint8)"
        self.norm = cv2.NORM_HAMMING if bits else cv2.NORM_L2

    def extract(self, image: ImageLike, mask: np.ndarray | None = None) -> Features:
        """As for `Extractor`; the strongest first."""
        colour = as_colour(image)
        height, width = colour.shape[:2]
        seen = self._seen(colour)
        try:
            keypoints, scores, rows = self._session.run(
                self._outputs, {self._input: self._tensor(seen)}
            )
            points, responses = keypoints.reshape(-1, 2).astype(np.float64), scores.ravel()
            rows = rows.reshape(rows.shape[-2:])
            if rows.dtype != np.uint8:
                rows = rows.astype(np.float32)
            if len(rows) != len(points):
                rows = rows.T
            if not len(rows) == len(points) == len(responses):
                raise ValueError(f"{len(points)} keypoints, {len(rows)} descriptors")
        except Exception as error:  # onnxruntime's errors have no common class
            raise InputError(
                f"{self.name} does not describe an image of {seen.shape[1]} × {seen.shape[0]} "
                f"pixels: {one_line(error)}"
            ) from error
        if len(points) and np.abs(points).max() <= 1:
            points = (points + 1) / 2 * (np.array(seen.shape[1::-1]) - 1)
        scale = np.array([1.0, 1.0])
        if self._size:
            scale = np.array([width, height]) / self._size
        points = (points + 0.5) * scale - 0.5
        inside = np.all((points >= -0.5) & (points < np.array([width, height]) - 0.5), axis=1)
        if mask is not None:
            column, row = np.rint(np.clip(points, 0, [width - 1, height - 1])).astype(int).T
            inside &= np.asarray(mask)[row, column] != 0
        order = np.argsort(-responses, kind="stable")
        order = order[inside[order]][: self._max_keypoints]
        x, y = points[order].T
        return Features(
            similarity_frames(x, y, RADIUS * scale.mean()),
            responses[order].astype(np.float32),
            np.ascontiguousarray(rows[order]),
            self.norm,
            (width, height),
        )

    def _seen(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape[:2]
        if self._size:
            return cv2.resize(image, self._size, interpolation=cv2.INTER_AREA)
        below, right = -height % _MULTIPLE, -width % _MULTIPLE
        return cv2.copyMakeBorder(image, 0, below, 0, right, cv2.BORDER_REPLICATE)

    def _tensor(self, image: np.ndarray) -> np.ndarray:
        if self._channels == 1:
            planes = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)[np.newaxis]
        else:
            planes = image[..., ::-1].transpose(2, 0, 1)
        return np.ascontiguousarray(planes[np.newaxis], np.float32) / 255
