"""Detecting local features as affine frames, with one size convention for every detector.

A frame's radius is the scale of the structure, so that one magnification fits all detectors:

- dog: σ of OpenCV's SIFT, half of `KeyPoint.size`. It is the finer scale of the pair that is
  subtracted, so a Gaussian blob of σ gives 0.89 σ.
- harris_laplace, hessian_laplace: σ at which the normalised Laplacian is extreme. A Gaussian blob
  of σ gives σ.
- harris_affine, hessian_affine: the same for the circle of the ellipse's area.
- orb: a twelfth of `KeyPoint.size`, which is no scale here but the width of the patch that ORB
  describes (31 pixels of its level); what SIFT describes is 12 σ wide.
- fast: 31/12, as ORB's finest level. FAST knows one scale only; its `KeyPoint.size` is always 7.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.features import scale_space
from doap_tf.features.affine_shape import adapt_shape
from doap_tf.features.frames import frames_from_keypoints, radii, similarity_frames
from doap_tf.features.orientation import orient

_ORB_LIMIT = 10_000  # ORB must be told how many to look for

#: Frame radius over `cv2.KeyPoint.size`, for keypoints of OpenCV's own detectors.
RADIUS_PER_SIZE = {"dog": 1 / 2, "orb": 1 / 12, "fast": 31 / 12 / 7}

DETECTORS = (
    "dog",
    "harris_laplace",
    "hessian_laplace",
    "harris_affine",
    "hessian_affine",
    "fast",
    "orb",
)


class Detections(NamedTuple):
    """Features found in one image, the strongest first.

    Attributes:
        frames: float64 [N, 2, 3].
        responses: float32 [N], comparable within one detector only.
    """

    frames: np.ndarray
    responses: np.ndarray


def detect(
    image: np.ndarray,
    detector: str = "dog",
    max_frames: int | None = None,
    oriented: bool = True,
    mask: np.ndarray | None = None,
) -> Detections:
    """Detects local features.

    Args:
        image: uint8 [H, W], grey.
        detector: one of `DETECTORS`.
        max_frames: keep this many of the strongest. ORB shares them out among its levels.
        oriented: turn frames to the dominant gradient. SIFT and ORB bring angles of their own
            (SIFT more than one for some places). Otherwise frames stand upright, one a place.
        mask: [H, W]; features centred where it is zero are left out.
    """
    _check(image, detector, mask)
    image = np.ascontiguousarray(image)
    mask = None if mask is None else (mask != 0).astype(np.uint8)
    if min(image.shape) < 8:
        # Too small for any structure, and OpenCV's detectors raise errors of their own.
        return Detections(np.zeros((0, 2, 3)), np.zeros(0, np.float32))
    if detector in RADIUS_PER_SIZE:
        frames, responses = _opencv(image, detector, max_frames, mask)
    else:
        frames, responses = _laplace(image, detector, mask)
    own_angles = detector in ("dog", "orb")
    if own_angles and not oriented:
        frames = similarity_frames(frames[:, 0, 2], frames[:, 1, 2], radii(frames))
        places = np.sort(np.unique(frames, axis=0, return_index=True)[1])
        frames, responses = frames[places], responses[places]
    strongest = np.argsort(-responses, kind="stable")
    frames, responses = frames[strongest], responses[strongest].astype(np.float32)
    if detector.endswith("affine"):
        frames, converged = adapt_shape(image, frames, max_frames)
        responses = responses[converged]
    frames, responses = frames[:max_frames], responses[:max_frames]
    if oriented and not own_angles:
        frames = orient(image, frames)
    return Detections(frames, responses)


def _check(image: np.ndarray, detector: str, mask: np.ndarray | None) -> None:
    if detector not in DETECTORS:
        raise InputError(f"unknown detector {detector!r}; known are {', '.join(DETECTORS)}")
    if image.ndim != 2 or image.dtype != np.uint8:
        raise InputError(
            f"image is {image.dtype} of shape {image.shape}; wanted is a grey image, uint8 [H, W]"
        )
    if mask is not None and mask.shape != image.shape:
        raise InputError(f"mask has shape {mask.shape}; wanted is the image's, {image.shape}")


def _opencv(
    image: np.ndarray, detector: str, max_frames: int | None, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    feature: cv2.Feature2D
    if detector == "dog":
        # Without precise upscaling every keypoint lies a quarter of a pixel off.
        feature = cv2.SIFT.create(enable_precise_upscale=True)
    elif detector == "orb":
        feature = cv2.ORB.create(nfeatures=_ORB_LIMIT if max_frames is None else max_frames)
    else:
        feature = cv2.FastFeatureDetector.create()
    keypoints = feature.detect(image, mask)
    responses = np.array([keypoint.response for keypoint in keypoints], np.float64)
    return frames_from_keypoints(keypoints, RADIUS_PER_SIZE[detector]), responses


def _laplace(
    image: np.ndarray, detector: str, mask: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    harris = detector.startswith("harris")
    find = scale_space.harris_laplace if harris else scale_space.hessian_laplace
    x, y, sigma, responses = find(image)
    frames = similarity_frames(x, y, sigma)
    if mask is None:
        return frames, responses
    kept = mask[np.rint(y).astype(int), np.rint(x).astype(int)] > 0
    return frames[kept], responses[kept]
