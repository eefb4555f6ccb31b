"""Pairs of views of one place by known homographies, which keypoints are trained on."""

import functools
import hashlib
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import cv2
import numpy as np
from absl import logging

from doap_tf.appearance import PRESETS, Appearance
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.errors import InputError
from doap_tf.parallel import parallel_map
from doap_tf.patch_generation.photographs import read_photograph
from doap_tf.patch_generation.scenes import Scene

_ALIGNED_SHARE = 0.2  # of the pairs, where there are aligned scenes
_SCALES = (0.9, 3.0)  # pixels of the photograph per pixel of a view
_LOG2_RATIO = 0.35  # maximum of the octaves between the scales of a pair
_ANY_ROTATION = 0.7  # share of the views; the others are nearly upright
_UPRIGHT = 0.2  # standard deviation of their angle
_LOG_STRETCH = 0.3  # maximum
_TILT = 0.12  # standard deviation of the perspective, over the side of a view
_SHIFT = 0.1  # standard deviation of a view's centre, in halves of its side
_FIRST_STRENGTH = 0.3  # of stretch and tilt in the first view
_FIRST_CHANGED = 0.5  # share of the first views whose appearance changes; all second ones' does
_BLUR = 0.45  # σ of the blur assumed in a photograph, in pixels


class Views(NamedTuple):
    """Pairs of views.

    Attributes:
        first, second: uint8 [B, S, S].
        first_inside, second_inside: uint8 [B, S, S], 1 where a view shows the photograph and 0
            where its border is repeated.
        homography: float32 [B, 3, 3], of the pixels of the first view to those of the second.
    """

    first: np.ndarray
    second: np.ndarray
    first_inside: np.ndarray
    second_inside: np.ndarray
    homography: np.ndarray


class ViewPairs:
    """Cuts pairs of views; their scales differ by a third of an octave, rotations are any.

    A pair shows one photograph twice, or two images of an aligned scene. All images are kept in
    memory, at two megapixels or fewer. Those that are damaged or smaller than a view are skipped
    with a warning.

    Args:
        scenes: Photographs and aligned scenes.
        size: Side of a view.
        seed: Chooses the pairs.
        appearance: Changes of half of the first views and of all the second ones.

    Attributes:
        names: Names of the scenes that are used.
    """

    def __init__(
        self,
        scenes: Sequence[Scene],
        size: int,
        seed: int = 0,
        appearance: Appearance = PRESETS["camera"],
    ):
        self._size, self._seed, self._appearance = size, seed, appearance
        self._photographs: list[list[np.ndarray]] = []
        self._aligned: list[list[np.ndarray]] = []
        self.names: list[str] = []
        problems = []
        for scene, (images, skipped) in zip(scenes, parallel_map(self._read, scenes), strict=True):
            problems += skipped
            if images:
                (self._aligned if scene.kind == "aligned" else self._photographs).append(images)
                self.names.append(scene.name)
        if not self.names:
            raise InputError(
                f"none of {len(scenes)} scenes can be used for views of {size} pixels: "
                f"{problems[0]}"
            )
        for problem in problems:
            logging.warning("skipped: %s", problem)

    def batch(self, number: int, count: int) -> Views:
        """Returns the pairs of a batch by its number, the same at any time."""
        pairs = (self._pair(np.random.default_rng([self._seed, number, i])) for i in range(count))
        return Views(*map(np.stack, zip(*pairs, strict=True)))

    @functools.cached_property
    def sha256(self) -> str:
        """Identifies the images."""
        digest = hashlib.sha256()
        for image in itertools.chain(*self._photographs, *self._aligned):
            digest.update(repr(image.shape).encode() + image.tobytes())
        return digest.hexdigest()

    def __str__(self) -> str:
        count = len(self._aligned)
        aligned = f" and {count} aligned scene{'s' * (count > 1)}" if count else ""
        return f"{len(self._photographs)} photographs{aligned}"

    def _read(self, scene: Scene) -> tuple[list[np.ndarray], list[InputError]]:
        """Returns the images of a scene that can be used, and why others cannot."""
        images: list[np.ndarray] = []
        skipped = []
        for file in scene.files:
            try:
                images.append(read_photograph(file, self._size))
            except InputError as error:
                skipped.append(error)
        sizes = {image.shape for image in images}
        if scene.kind == "aligned" and (len(images) < 2 or len(sizes) > 1):
            reason = InputError(
                f"{scene.files[0].parent} has {len(images)} usable images of {len(sizes)} sizes; "
                "an aligned scene requires two or more of the same size."
            )
            return [], [*skipped, reason]
        return images, skipped

    def _pair(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        share = _ALIGNED_SHARE if self._photographs else 1.0
        if self._aligned and rng.random() < share:
            scene = self._aligned[rng.integers(len(self._aligned))]
            one, two = (scene[index] for index in rng.choice(len(scene), 2, replace=False))
        else:
            (one,) = (two,) = self._photographs[rng.integers(len(self._photographs))]
        sides = np.array(one.shape[::-1])
        smallest, largest = _SCALES
        largest = np.clip(sides.min() / self._size, 1, largest)
        scale = np.exp(rng.uniform(np.log(smallest), np.log(largest)))
        margin = self._size * scale / 2
        centre = rng.uniform(np.minimum(margin, sides / 2), np.maximum(sides - margin, sides / 2))
        scales = scale, scale * 2 ** rng.uniform(-_LOG2_RATIO, _LOG2_RATIO)
        moved = centre + rng.normal(0, _SHIFT, 2) * margin
        maps = [
            self._view(rng, centre, scales[0], _FIRST_STRENGTH),
            self._view(rng, moved, scales[1], 1.0),
        ]
        first, first_inside = self._cut(one, maps[0], scales[0])
        second, second_inside = self._cut(two, maps[1], scales[1])
        if rng.random() < _FIRST_CHANGED:
            first = change_appearance(first, self._appearance, rng)
        second = change_appearance(second, self._appearance, rng)
        homography = np.linalg.inv(maps[1]) @ maps[0]
        homography = (homography / homography[2, 2]).astype(np.float32)
        return first, second, first_inside, second_inside, homography

    def _view(
        self, rng: np.random.Generator, centre: np.ndarray, scale: float, strength: float
    ) -> np.ndarray:
        """A random homography [3, 3] of the pixels of a view to those of the photograph."""
        free = rng.random() < _ANY_ROTATION
        angle = rng.uniform(-np.pi, np.pi) if free else rng.normal(0, _UPRIGHT)
        stretch = np.exp(rng.uniform(0, _LOG_STRETCH) * strength)
        axis = _rotation(rng.uniform(0, np.pi))
        shape, tilt, to_origin, to_centre = (np.eye(3) for _ in range(4))
        shape[:2, :2] = scale * _rotation(angle) @ axis @ np.diag([stretch, 1 / stretch]) @ axis.T
        tilt[2, :2] = rng.normal(0, _TILT, 2) * strength / self._size
        to_origin[:2, 2] = -(self._size - 1) / 2
        to_centre[:2, 2] = centre
        return to_centre @ shape @ tilt @ to_origin

    def _cut(
        self, image: np.ndarray, view: np.ndarray, scale: float
    ) -> tuple[np.ndarray, np.ndarray]:
        image, view = self._part(image, view, 3 * scale)
        if scale > 1.2:
            image = cv2.GaussianBlur(image, (0, 0), _BLUR * np.sqrt(scale**2 - 1))
        size = (self._size, self._size)
        crop = cv2.warpPerspective(
            image,
            view,
            size,
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        inside = cv2.warpPerspective(
            np.ones_like(image), view, size, flags=cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        )
        return crop, inside

    def _part(
        self, image: np.ndarray, view: np.ndarray, margin: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The part of an image that a view and a margin around it show, and the view of that."""
        last = self._size - 1
        corners = np.array([[0, 0, 1], [last, 0, 1], [0, last, 1], [last, last, 1]]) @ view.T
        corners = corners[:, :2] / corners[:, 2:]
        largest = np.array(image.shape[::-1])
        low = np.clip(np.floor(corners.min(axis=0) - margin), 0, largest - 1).astype(int)
        high = np.clip(np.ceil(corners.max(axis=0) + margin) + 1, low + 1, largest).astype(int)
        moved = np.eye(3)
        moved[:2, 2] = -low
        return image[low[1] : high[1], low[0] : high[0]], moved @ view


def _rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
