"""Detecting local features as affine frames: keypoints, then affine shape, then orientation.

The radius of a frame is the scale of the structure, so that one magnification fits all detectors:

- dog: σ of OpenCV's SIFT, half of `KeyPoint.size`. It is the finer scale of the pair that is
  subtracted, so a Gaussian blob of σ gives 0.89 σ.
- dog_dense: the same with half the contrast threshold, which is COLMAP's: about twice as many.
- harris_laplace, hessian_laplace: σ at which the normalised Laplacian is extreme. A Gaussian blob
  of σ gives σ.
- harris_affine, hessian_affine: the same for the circle of the ellipse's area.
- orb: a twelfth of `KeyPoint.size`, which for ORB is not a scale but the width of the patch that it
  describes (31 pixels of its level); SIFT describes a patch 12 σ wide.
- fast: 31/12, as ORB's finest level. FAST has a single scale; its `KeyPoint.size` is always 7.
- learned: what the network was trained for, times the scale of the pyramid's level.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import cv2
import numpy as np

from doap_tf.catalogue import ENTRIES, list_pretrained, registered
from doap_tf.counts import count
from doap_tf.errors import InputError, suggestion
from doap_tf.features.affine_shape import adapt_shape
from doap_tf.features.dense_detector import DenseDetector
from doap_tf.features.frames import (
    as_frames,
    frames_from_keypoints,
    radii,
    similarity_frames,
)
from doap_tf.features.learned import LearnedDetector, open_learned
from doap_tf.features.orientation import orient
from doap_tf.features.scale_space import LaplaceDetector, Points
from doap_tf.readers.images import ImageLike, as_grey

DETECTORS = (
    "dog",
    "dog_dense",
    "harris_laplace",
    "hessian_laplace",
    "harris_affine",
    "hessian_affine",
    "fast",
    "orb",
    *list_pretrained("detector"),
)
_CONTRASTS = {"dog": 0.04, "dog_dense": 0.02}  # OpenCV's threshold, COLMAP's
_AFFINE = ("harris_affine", "hessian_affine")

#: Frame radius over `cv2.KeyPoint.size`, for keypoints of OpenCV's own detectors.
RADIUS_PER_SIZE = {"dog": 1 / 2, "dog_dense": 1 / 2, "orb": 1 / 12, "fast": 31 / 12 / 7}

_NAMES_IN_OPENCV = {
    "Feature2D.SIFT": "dog",
    "Feature2D.ORB": "orb",
    "Feature2D.FastFeatureDetector": "fast",
    "Feature2D.AgastFeatureDetector": "fast",
}
SMALLEST_SIDE = 8  # smaller images have no structure, and some of OpenCV's detectors fail on them


class Detections(NamedTuple):
    """The features of one image.

    Attributes:
        frames: float64 [N, 2, 3].
        responses: float32 [N], comparable within one detector only.
    """

    frames: np.ndarray
    responses: np.ndarray

    def __repr__(self) -> str:
        return f"Detections({count(len(self.frames), 'frame')})"


class Detector(Protocol):
    """Finds local features: a `cv2.Feature2D`, or a class of your own.

    A method `settings()` that returns its parameters lets features be stored.
    """

    def detect(
        self, image: np.ndarray, mask: np.ndarray | None = None
    ) -> Sequence[cv2.KeyPoint] | np.ndarray | Detections | Points:
        """Finds features in a grey image, uint8 [H, W], where the mask, uint8 [H, W], is not zero.

        Returns:
            `cv2.KeyPoint`s; or affine frames [N, 2, 3], the strongest first; or `Detections`; or
            `Points`, which have no orientation.
        """


def detect(
    image: ImageLike,
    detector: str | os.PathLike | Detector = "dog",
    max_frames: int | None = None,
    oriented: bool = True,
    mask: np.ndarray | None = None,
) -> Detections:
    """Detects local features.

    Args:
        image: Anything that `doap_tf.readers.images.as_grey` takes.
        detector: One of `DETECTORS`, or a registered name; the path of a model for
            `LearnedDetector`; or any object with a method `detect(image, mask)`. Affine frames that
            an object returns keep their shape and orientation.
        max_frames: Keep this many of the strongest. ORB shares them out among its levels.
        oriented: Whether keypoints without an angle are turned to the dominant gradient. SIFT and
            ORB find angles themselves (SIFT sometimes several at one position). Otherwise keypoints
            stand upright, one per position.
        mask: [H, W]; nothing is detected where it is zero.

    Returns:
        The features, the strongest first.
    """
    if max_frames is not None and max_frames < 0:
        raise InputError(f"max_frames must not be negative, but is {max_frames}.")
    # ORB must be told how many to look for: no image has as many as pixels.
    image = as_grey(image)
    finder = _finder(detector, image.size if max_frames is None else max_frames)
    if mask is not None:
        check_mask(mask, image)
    if min(image.shape) < SMALLEST_SIDE:
        return Detections(np.zeros((0, 2, 3)), np.zeros(0, np.float32))
    mask = None if mask is None else (mask != 0).astype(np.uint8)

    keypoints = _as_keypoints(finder.detect(image, mask), radius_per_size(detector), oriented)
    strongest = np.argsort(-keypoints.responses, kind="stable")
    if detector in _AFFINE:
        keypoints = keypoints.take(strongest)
        ellipses, converged = adapt_shape(image, keypoints.frames, max_frames)
        frames, responses, has_angle = keypoints.take(converged)._replace(frames=ellipses)
    else:
        frames, responses, has_angle = keypoints.take(strongest[:max_frames])
    if oriented and not has_angle.all():
        frames[~has_angle] = orient(image, frames[~has_angle])
    return Detections(frames, responses.astype(np.float32))


def check_mask(mask: np.ndarray, image: np.ndarray) -> None:
    """Refuses a mask that is not of the image's size."""
    if np.shape(mask) != image.shape:
        raise InputError(f"mask has shape {np.shape(mask)}; expected the image's, {image.shape}")


def check_detector(detector: str | os.PathLike | Detector) -> None:
    """Raises an InputError unless `detect` takes this detector."""
    _finder(detector, None)


def detects_circles(detector: str | os.PathLike | Detector) -> bool:
    """Whether all frames of a detector are known to be circles."""
    detector = registered(detector, "detector")
    if isinstance(detector, str | os.PathLike):
        return detector not in _AFFINE
    return isinstance(detector, cv2.Feature2D | DenseDetector | LearnedDetector)


def opened(detector: str | os.PathLike | Detector) -> str | os.PathLike | Detector:
    """The object behind the name of a registered or a learned detector; any other as it is."""
    finder = _finder(detector, None)
    return finder if isinstance(finder, LearnedDetector) else registered(detector, "detector")


def opencv_name(detector: str | os.PathLike | Detector) -> str | None:
    """The name in `RADIUS_PER_SIZE` of a detector that is OpenCV's own, or None."""
    detector = registered(detector, "detector")
    if isinstance(detector, str):
        return detector if detector in RADIUS_PER_SIZE else None
    name = getattr(detector, "getDefaultName", str)()
    return _NAMES_IN_OPENCV.get(name)


def radius_per_size(detector: str | os.PathLike | Detector) -> float:
    """Frame radius over `cv2.KeyPoint.size` for the keypoints of a detector: ½ unless known."""
    return RADIUS_PER_SIZE.get(opencv_name(detector) or "", 0.5)


def _finder(
    detector: str | os.PathLike | Detector, max_frames: int | None
) -> cv2.Feature2D | LaplaceDetector | Detector:
    """The first stage of a detector."""
    detector = registered(detector, "detector")
    if not isinstance(detector, str | os.PathLike) and hasattr(detector, "detect"):
        return detector
    if isinstance(detector, str) and detector in _CONTRASTS:
        # Without precise upscaling every keypoint lies a quarter of a pixel off.
        return cv2.SIFT.create(contrastThreshold=_CONTRASTS[detector], enable_precise_upscale=True)
    if detector == "orb":
        return cv2.ORB.create(nfeatures=max_frames or 0)
    if detector == "fast":
        return cv2.FastFeatureDetector.create()
    if detector in list_pretrained("detector"):
        return open_learned(ENTRIES[detector].file(".tflite"))
    if detector in DETECTORS:
        return LaplaceDetector(detector.partition("_")[0])
    if isinstance(detector, str | os.PathLike):
        path = pathlib.Path(detector).expanduser()
        if path.suffix == ".tflite" or path.is_dir():
            return open_learned(path)
    raise InputError(
        f"unknown detector {detector!r}; expected one of {', '.join(DETECTORS)}, a .tflite file of "
        "a keypoint network, a training directory with one, or an object with a method "
        f"detect(image, mask).{_suggestion(detector)}"
    )


def _suggestion(detector: object) -> str:
    if str(detector).lower() in ("sift", "rootsift"):
        return " SIFT's detector is dog."
    return suggestion(detector, [*DETECTORS, *list_pretrained("detector")])


class _Keypoints(NamedTuple):
    """Frames [N, 2, 3] of the first stage, their responses [N], and which angles are known [N]."""

    frames: np.ndarray
    responses: np.ndarray
    has_angle: np.ndarray

    def take(self, rows: np.ndarray | slice) -> _Keypoints:
        return _Keypoints(*(column[rows] for column in self))


def _as_keypoints(
    detected: Sequence[cv2.KeyPoint] | np.ndarray | Detections | Points,
    radius_per_size: float,
    oriented: bool,
) -> _Keypoints:
    if isinstance(detected, Points):
        frames = similarity_frames(detected.x, detected.y, detected.sigma)
        return _Keypoints(frames, detected.response, np.zeros(len(frames), bool))
    if isinstance(detected, np.ndarray):
        detected = Detections(detected, np.zeros(len(detected)))
    if isinstance(detected, Detections):
        frames = as_frames(detected.frames)
        return _Keypoints(frames, np.asarray(detected.responses), np.ones(len(frames), bool))
    frames = frames_from_keypoints(detected, radius_per_size)
    responses = np.array([keypoint.response for keypoint in detected], np.float64)
    has_angle = np.array([keypoint.angle >= 0 for keypoint in detected], bool)
    keypoints = _Keypoints(frames, responses, has_angle)
    if oriented or not has_angle.any():
        return keypoints
    upright = similarity_frames(frames[:, 0, 2], frames[:, 1, 2], radii(frames))
    distinct = np.sort(np.unique(upright, axis=0, return_index=True)[1])
    return keypoints._replace(frames=upright).take(distinct)
