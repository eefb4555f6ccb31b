"""Relative poses of image pairs: the whole way from images to an essential matrix."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from doap_tf.errors import InputError
from doap_tf.evaluation.feature_cache import FeatureCache
from doap_tf.evaluation.image_model import ImageModel
from doap_tf.evaluation.pair_results import SEEDS, PairResults, PairScores
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.two_view_scores import (
    EPIPOLAR_LIMIT,
    area_under_curve,
    distinct_places,
    epipolar_errors,
    pose_error,
)
from doap_tf.matching import Features, Matcher, NearestNeighbours
from doap_tf.matching.geometry_estimation import estimate_geometry
from doap_tf.progress import progress
from doap_tf.readers.images import read_image, shrink
from doap_tf.readers.pose_pairs import PosedImage, PosePair, read_pose_pairs

LIMITS = (5, 10, 20)  # of the area under the curve, in degrees
#: Thresholds of an inlier in pixels, of which each model gets one by validation.
THRESHOLDS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0)
DEFAULT_THRESHOLD = 1.0


class Pose:
    """The benchmark on pairs whose relative pose is known.

    Args:
        folders: Files or folders that `read_pose_pairs` reads.
        threshold: Pixels of an inlier for all models.
        validation: Instead of a threshold, a folder on whose pairs each model gets the one of
            `THRESHOLDS` with the largest mean of its areas under the curve, by the first seed.
        matcher: By default mutual nearest neighbours.
        max_image_size: Images whose longer side has more pixels are shrunk to it; None or 0: never.
        memory_mb: Limit for features in memory.
    """

    def __init__(
        self,
        folders: Sequence[str | os.PathLike],
        *,
        threshold: float | None = None,
        validation: str | os.PathLike | None = None,
        matcher: Matcher | None = None,
        max_image_size: int | None = None,
        memory_mb: float = 1024,
    ):
        if threshold is not None and validation is not None:
            raise InputError("give either a threshold or a folder to choose it on, not both.")
        self._scenes = {
            pathlib.Path(folder).resolve(): read_pose_pairs(folder) for folder in folders
        }
        self._validation = None if validation is None else pathlib.Path(validation).resolve()
        self._validation_pairs = read_pose_pairs(validation) if validation else []
        self._threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        self._matcher = matcher or NearestNeighbours()
        self._max_image_size = max_image_size or None
        self._memory_mb = memory_mb
        self._sizes: dict[pathlib.Path, tuple[int, int]] = {}  # of the images' files
        self._results = PairResults("pose", LIMITS, "°", "precision")

    def evaluate(self, model: ImageModel) -> Result:
        """Detects, describes, matches and estimates the poses of all pairs with a model."""
        cache = FeatureCache(model.extractor, self._memory_mb)
        threshold, validated = self._threshold, {}
        if self._validation:
            pairs = progress(self._validation_pairs, f"choosing a threshold ({model.name})")
            errors = np.array([self._match(cache, pair).errors(THRESHOLDS) for pair in pairs]).T
            means = np.mean([area_under_curve(errors, limit) for limit in LIMITS], axis=0)
            validated = dict(zip(THRESHOLDS, means.tolist(), strict=True))
            threshold = max(validated, key=lambda each: validated[each])
        scenes = {
            path.name: {
                f"{pair.image1.path.stem} {pair.image2.path.stem}": _scores(
                    self._match(cache, pair), threshold
                )
                for pair in progress(pairs, f"pairs of {path.name} ({model.name})")
            }
            for path, pairs in self._scenes.items()
        }
        return self._results.result(
            model,
            self._protocol(),
            scenes,
            cache,
            {"threshold [px]": threshold},
            {
                "matcher": self._matcher.settings(),
                "max_image_size": self._max_image_size,
                "validation": {f"{each:g} px": area for each, area in validated.items()},
            },
            [f"pose/{path.name}" for path in self._scenes],
        )

    def _protocol(self) -> str:
        chosen = f"{self._threshold:g} px for all models"
        if self._validation:
            grid = ", ".join(f"{threshold:g}" for threshold in THRESHOLDS)
            chosen = (
                f"for each model the one of {grid} px with the largest mean area on "
                f"{self._validation.name}"
            )
        pairs = ", ".join(f"{path.name} ({len(each)})" for path, each in self._scenes.items())
        return (
            f"Pairs of {pairs}; essential matrix by MAGSAC++, threshold {chosen}; mean of {SEEDS} "
            f"seeds; precision: matches with a squared epipolar error below {EPIPOLAR_LIMIT:g}"
        )

    def _match(self, cache: FeatureCache, pair: PosePair) -> _MatchedPair:
        images = pair.image1, pair.image2
        features = [self._features(cache, image) for image in images]
        indices, scores, distances = self._matcher.match(*features)
        order = np.argsort(-scores if distances is None else distances, kind="stable")
        points1, points2 = (
            _unturned(each.points[rows], each.image_size, image.turns)
            for image, each, rows in zip(images, features, indices[order].T, strict=True)
        )
        camera1, camera2 = map(self._intrinsics, images, features)
        keypoints = float(np.mean([len(each.frames) for each in features]))
        return _MatchedPair(pair, points1, points2, camera1, camera2, keypoints)

    def _features(self, cache: FeatureCache, image: PosedImage) -> Features:
        def read() -> np.ndarray:
            pixels = read_image(image.path, upright=False)
            self._sizes[image.path] = pixels.shape[1], pixels.shape[0]
            turned = np.rot90(shrink(pixels, self._max_image_size), image.turns)
            return np.ascontiguousarray(turned)

        return cache.features((image.path, image.turns), read)

    def _intrinsics(self, image: PosedImage, features: Features) -> np.ndarray:
        """The camera's matrix of the image that was described, before its turns."""
        size = features.image_size[:: -1 if image.turns % 2 else 1]
        scale = np.divide(size, image.size or self._sizes[image.path])
        matrix = image.intrinsics.copy()
        matrix[:2, :2] *= scale[:, np.newaxis]
        matrix[:2, 2] = (matrix[:2, 2] + 0.5) * scale - 0.5
        return matrix


class _MatchedPair(NamedTuple):
    """Matches [M, 2] of two images, the most confident first, and the matrices of their cameras."""

    truth: PosePair
    points1: np.ndarray
    points2: np.ndarray
    camera1: np.ndarray
    camera2: np.ndarray
    keypoints: float

    @property
    def rays(self) -> tuple[np.ndarray, np.ndarray]:
        """The matches in focal lengths."""
        return _rays(self.points1, self.camera1), _rays(self.points2, self.camera2)

    def errors(self, thresholds: Sequence[float]) -> list[float]:
        """What `error` returns for each threshold and the first seed."""
        return [self.error(threshold, seed=0) for threshold in thresholds]

    def error(self, threshold: float, seed: int) -> float:
        """Degrees between the true pose and the one that MAGSAC++ estimates."""
        cameras = self.camera1, self.camera2
        estimated = estimate_geometry(
            self.points1, self.points2, "essential", threshold, seed, cameras=cameras
        )
        if estimated is None:
            return np.inf
        essential, inliers = estimated
        rays1, rays2 = (rays[inliers] for rays in self.rays)
        return pose_error(essential, rays1, rays2, self.truth.rotation, self.truth.translation)


def _scores(pair: _MatchedPair, threshold: float) -> PairScores:
    truth = pair.truth
    right = epipolar_errors(*pair.rays, truth.rotation, truth.translation) < EPIPOLAR_LIMIT
    return PairScores(
        np.array([pair.error(threshold, seed) for seed in range(SEEDS)]),
        float(right.mean()) if len(right) else 0.0,
        len(right),
        int(right.sum()),
        distinct_places(pair.points1[right]),
        pair.keypoints,
    )


def _rays(points: np.ndarray, intrinsics: np.ndarray) -> np.ndarray:
    """Points [N, 2] in focal lengths from the principal point."""
    return (points - intrinsics[:2, 2]) @ np.linalg.inv(intrinsics[:2, :2]).T


def _unturned(points: np.ndarray, size: tuple[int, int], turns: int) -> np.ndarray:
    """Points [N, 2] of an image of a size after quarter turns, as they are before them."""
    for _ in range(turns):
        # The right column became the upper row.
        points = np.stack([size[1] - 1 - points[:, 1], points[:, 0]], axis=1)
        size = size[::-1]
    return points
