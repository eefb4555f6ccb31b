"""Relative poses of image pairs: the whole way from images to an essential matrix."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import cv2
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
from doap_tf.matching import Features, Matcher, NearestNeighbours, Verifier
from doap_tf.progress import progress
from doap_tf.readers.images import read_image
from doap_tf.readers.pose_pairs import PosedImage, PosePair, read_pose_pairs

LIMITS = (5, 10, 20)  # of the area under the curve, in degrees
#: Thresholds of an inlier in pixels, of which each model gets one by validation.
THRESHOLDS = (0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
DEFAULT_THRESHOLD = 1.0


class Pose:
    """The benchmark on pairs whose relative pose is known.

    Args:
        folders: Files or folders that `read_pose_pairs` reads.
        threshold: Pixels of an inlier for all models.
        validation: Instead of a threshold, a folder on whose pairs each model gets the one of
            `THRESHOLDS` with the largest mean of its areas under the curve.
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
            validated = self._measure(cache, model.name, self._validation_pairs, THRESHOLDS)
            threshold = max(validated, key=lambda each: _mean_area(validated[each]))
        scenes = {
            path.name: validated[threshold]
            if path == self._validation
            else self._measure(cache, model.name, pairs, [threshold])[threshold]
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
                "validation": {f"{each:g} px": _mean_area(validated[each]) for each in validated},
            },
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

    def _measure(
        self,
        cache: FeatureCache,
        name: str,
        pairs: Sequence[PosePair],
        thresholds: Sequence[float],
    ) -> dict[float, dict[str, PairScores]]:
        """Returns the scores of every pair by threshold and the names of its images."""
        scores: dict[float, dict[str, PairScores]] = {threshold: {} for threshold in thresholds}
        for pair in progress(pairs, f"pairs ({name})"):
            images = f"{pair.image1.path.stem} {pair.image2.path.stem}"
            for threshold, each in self._measure_pair(cache, pair, thresholds).items():
                scores[threshold][images] = each
        return scores

    def _measure_pair(
        self, cache: FeatureCache, pair: PosePair, thresholds: Sequence[float]
    ) -> dict[float, PairScores]:
        images = pair.image1, pair.image2
        features = [self._features(cache, image) for image in images]
        indices, scores, distances = self._matcher.match(*features)
        costs = -scores if distances is None else distances
        points1, points2 = (
            _unturned(each.points[rows], each.image_size, image.turns)
            for image, each, rows in zip(images, features, indices.T, strict=True)
        )
        camera1, camera2 = map(self._intrinsics, images, features)
        rays1, rays2 = _rays(points1, camera1), _rays(points2, camera2)
        pose = pair.rotation, pair.translation
        right = epipolar_errors(rays1, rays2, *pose) < EPIPOLAR_LIMIT
        surest = np.argsort(costs, kind="stable")
        surest = surest[right[surest]]

        def error(threshold: float, seed: int) -> float:
            verifier = Verifier("essential", threshold, camera1, camera2, seed)
            verified = verifier.verify_points(points1, points2, costs)
            inliers = verified.inliers
            return pose_error(verified.model, rays1[inliers], rays2[inliers], *pose)

        return {
            threshold: PairScores(
                np.array([error(threshold, seed) for seed in range(SEEDS)]),
                float(right.mean()) if len(right) else 0.0,
                len(right),
                int(right.sum()),
                distinct_places(points1[surest]),
                float(np.mean([len(each.frames) for each in features])),
            )
            for threshold in thresholds
        }

    def _features(self, cache: FeatureCache, image: PosedImage) -> Features:
        def read() -> np.ndarray:
            pixels = read_image(image.path, upright=False)
            height, width = pixels.shape[:2]
            self._sizes[image.path] = width, height
            ratio = (self._max_image_size or np.inf) / max(height, width)
            if ratio < 1:
                size = max(1, round(width * ratio)), max(1, round(height * ratio))
                pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
            return np.ascontiguousarray(np.rot90(pixels, image.turns))

        return cache.features((image.path, image.turns), read)

    def _intrinsics(self, image: PosedImage, features: Features) -> np.ndarray:
        """The camera's matrix of the image that was described, before its turns."""
        size = features.image_size[:: -1 if image.turns % 2 else 1]
        scale = np.divide(size, image.size or self._sizes[image.path])
        matrix = image.intrinsics.copy()
        matrix[:2, :2] *= scale[:, np.newaxis]
        matrix[:2, 2] = (matrix[:2, 2] + 0.5) * scale - 0.5
        return matrix


def _mean_area(scores: Mapping[str, PairScores]) -> float:
    errors = np.stack([each.errors for each in scores.values()], axis=-1)
    return float(np.mean([area_under_curve(errors, limit) for limit in LIMITS]))


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
