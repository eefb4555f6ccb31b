"""What stored features know a detector or descriptor object by."""

import hashlib
import json
from typing import Any

import cv2
import numpy as np

from doap_tf.errors import InputError


def component_settings(component: Any) -> dict[str, Any]:
    """Returns the parameters of an object, for JSON.

    These are what its method `settings()` returns, or what a `cv2.Feature2D` writes; an object with
    `weights_sha256` needs none. Others raise an InputError, since features of one object must not
    be taken for those of another.
    """
    if hasattr(component, "settings"):
        return dict(component.settings())
    if isinstance(component, cv2.Feature2D) and (written := written_parameters(component)):
        return written | {"keypoints_sha256": _keypoints_sha256(component)}
    if getattr(component, "weights_sha256", None):
        return {}
    raise InputError(
        f"what {type(component).__name__} computes cannot be stored, because its parameters are "
        "unknown: use a class with a method settings() that returns them as a dictionary."
    )


def written_parameters(algorithm: cv2.Feature2D) -> dict[str, Any]:
    """Returns the parameters that one of OpenCV's algorithms writes."""
    mode = cv2.FILE_STORAGE_WRITE | cv2.FILE_STORAGE_MEMORY | cv2.FILE_STORAGE_FORMAT_JSON
    storage = cv2.FileStorage(".json", mode)
    algorithm.write(storage, "written")
    return json.loads(storage.releaseAndGetString())["written"]


def texture() -> np.ndarray:
    """Returns an image, uint8 [192, 192], in which algorithms with other parameters differ."""
    values = np.random.default_rng(0).integers(0, 256, (24, 24), np.uint8)
    return np.kron(values, np.ones((8, 8), np.uint8))


def _keypoints_sha256(algorithm: cv2.Feature2D) -> str:
    """Tells apart what `write` does not, such as SIFT's `enable_precise_upscale`."""
    keypoints = algorithm.detect(texture())
    rows = np.array([(*keypoint.pt, keypoint.size) for keypoint in keypoints]).reshape(-1, 3)
    # Rounded, because machines differ in the last digits.
    rows = np.unique(np.rint(8 * rows).astype("<i8"), axis=0)
    return hashlib.sha256(rows.tobytes()).hexdigest()
