"""Copying and pickling what holds one of OpenCV's algorithms, which OpenCV does not pickle."""

import json
from typing import Any, NamedTuple

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.matching.component_settings import texture, written_parameters

#: What `create` takes and `write` leaves out.
_UNWRITTEN: dict[type, dict[str, Any]] = {cv2.SIFT: {"enable_precise_upscale": True}}


class HoldsAlgorithms:
    """Lets objects with a `cv2.Feature2D` among their attributes be copied and pickled."""

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: _recipe(value) if isinstance(value, cv2.Feature2D) else value
            for name, value in vars(self).items()
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value.made() if isinstance(value, _Recipe) else value)


class _Recipe(NamedTuple):
    """How to make an algorithm: its class, arguments of `create`, and what it wrote."""

    kind: type
    arguments: dict[str, Any]
    written: dict[str, Any]

    def made(self) -> cv2.Feature2D:
        algorithm = self.kind.create(**self.arguments)  # type: ignore[attr-defined]
        mode = cv2.FILE_STORAGE_READ | cv2.FILE_STORAGE_MEMORY
        storage = cv2.FileStorage(json.dumps(self.written), mode)
        algorithm.read(storage.root())
        return algorithm


def _recipe(algorithm: cv2.Feature2D) -> _Recipe:
    """The recipe of an algorithm, if what it makes computes the same."""
    kind = type(algorithm)
    for arguments in ({}, _UNWRITTEN.get(kind, {})):
        recipe = _Recipe(kind, arguments, written_parameters(algorithm))
        try:
            if _compute_the_same(algorithm, recipe.made()):
                return recipe
        except (cv2.error, TypeError, AttributeError):  # `create` or `read` needs something else
            continue
    raise InputError(
        f"{kind.__name__} cannot be copied or pickled, because OpenCV does not write all that it "
        "depends on: make it anew in each process."
    )


def _compute_the_same(one: cv2.Feature2D, two: cv2.Feature2D) -> bool:
    return all(map(np.array_equal, _computed(one), _computed(two)))


def _computed(algorithm: cv2.Feature2D) -> tuple[np.ndarray, np.ndarray]:
    """Keypoints and descriptors of a texture, the latter empty where it only detects."""
    keypoints = algorithm.detect(texture())
    rows = np.zeros(0)
    if algorithm.descriptorSize():
        rows = np.asarray(algorithm.compute(texture(), keypoints)[1])
    return np.array([(*k.pt, k.size, k.angle, k.response) for k in keypoints]), rows
