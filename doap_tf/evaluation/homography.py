"""Homographies of image sequences: the whole way from images to a homography."""

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterator

import cv2
import numpy as np

from doap_tf.evaluation.feature_cache import FeatureCache
from doap_tf.evaluation.image_model import ImageModel
from doap_tf.evaluation.pair_results import SEEDS, PairResults, PairScores
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.seen import image_sequence
from doap_tf.evaluation.two_view_scores import corner_error, distinct_places
from doap_tf.features.frames import transform_points
from doap_tf.matching import Features, Matcher, NearestNeighbours, Verifier
from doap_tf.progress import progress
from doap_tf.readers import list_image_sequences, read_image_sequence
from doap_tf.readers.images import resizing_map, shrink

LIMITS = (1, 3, 5)  # of the area under the curve, in pixels
TOLERANCES = np.arange(1, 11)  # of mean matching accuracy, in pixels
RIGHT = 3  # pixels within which a match counts as right
DEFAULT_THRESHOLD = 3.0

_KINDS = {"i": "illumination", "v": "viewpoint"}


class Homography:
    """The benchmark on HPatches' image sequences, or on Oxford's.

    Args:
        folder: Folder with one subfolder per sequence.
        threshold: Pixels of an inlier for all models.
        matcher: By default mutual nearest neighbours.
        max_image_size: Images whose longer side has more pixels are shrunk to it, and errors are in
            pixels of these; None or 0: never.
        memory_mb: Limit for features in memory.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        *,
        threshold: float | None = None,
        matcher: Matcher | None = None,
        max_image_size: int | None = None,
        memory_mb: float = 1024,
    ):
        self._folders = list_image_sequences(folder)
        self._threshold = DEFAULT_THRESHOLD if threshold is None else threshold
        self._verifiers = [
            Verifier("homography", self._threshold, seed=seed) for seed in range(SEEDS)
        ]
        self._matcher = matcher or NearestNeighbours()
        self._max_image_size = max_image_size or None
        self._memory_mb = memory_mb
        self._results = PairResults("homography", LIMITS, " px", "accuracy 1–10 px")

    def evaluate(self, model: ImageModel) -> Result:
        """Detects, describes, matches and estimates the homographies of all pairs with a model."""
        cache = FeatureCache(model.extractor, self._memory_mb)
        scores: dict[str, dict[str, PairScores]] = {}
        accuracies: dict[str, list[np.ndarray]] = {}
        for folder in progress(self._folders, f"sequences ({model.name})"):
            kind = _KINDS.get(folder.name.partition("_")[0], "other")
            for name, pair, accuracy in self._sequence(cache, folder):
                scores.setdefault(kind, {})[name] = pair
                accuracies.setdefault(kind, []).append(accuracy)
        result = self._results.result(
            model,
            f"{len(self._folders)} sequences, images 1–2 to 1–6; homography by MAGSAC++, threshold "
            f"{self._threshold:g} px; mean of {SEEDS} seeds; mean corner error; accuracy: matches "
            f"within 1 to 10 px; right matches within {RIGHT} px",
            dict(sorted(scores.items())),
            cache,
            {},
            {"matcher": self._matcher.settings(), "max_image_size": self._max_image_size},
            [image_sequence(folder.name) for folder in self._folders],
        )
        everything = [each for kind in accuracies.values() for each in kind]
        columns = [f"{tolerance} px" for tolerance in TOLERANCES]
        curves = {
            f"Mean matching accuracy, {kind}": dict(
                zip(columns, np.mean(each, axis=0).tolist(), strict=True)
            )
            for kind, each in {"all": everything, **accuracies}.items()
        }
        names = ",".join(folder.name for folder in self._folders)
        return dataclasses.replace(result, split=names, details=result.details | curves)

    def _sequence(
        self, cache: FeatureCache, folder: pathlib.Path
    ) -> Iterator[tuple[str, PairScores, np.ndarray]]:
        """Yields the name, scores and accuracies [10] of the five pairs of a sequence."""
        sequence = read_image_sequence(folder)
        images = [cv2.cvtColor(image, cv2.COLOR_RGB2BGR) for image in sequence.images]
        first, *others = [
            cache.features((folder, number), functools.partial(shrink, image, self._max_image_size))
            for number, image in enumerate(images)
        ]
        enlarged = np.linalg.inv(_scale(images[0], first))
        for row, (features, homography) in enumerate(
            zip(others, sequence.homographies, strict=True), start=1
        ):
            between = _scale(images[row], features) @ homography @ enlarged
            yield f"{folder.name} 1–{row + 1}", *self._pair(first, features, between)

    def _pair(
        self, features1: Features, features2: Features, homography: np.ndarray
    ) -> tuple[PairScores, np.ndarray]:
        indices, scores, distances = self._matcher.match(features1, features2)
        costs = -scores if distances is None else distances
        points1, points2 = features1.points[indices[:, 0]], features2.points[indices[:, 1]]
        models = [each.verify_points(points1, points2, costs).model for each in self._verifiers]
        errors = [corner_error(model, homography, features1.image_size) for model in models]
        residuals = np.linalg.norm(transform_points(points1, homography) - points2, axis=1)
        within = residuals[:, np.newaxis] <= TOLERANCES
        accuracies = within.sum(axis=0) / max(1, len(within))
        most_confident = np.argsort(costs, kind="stable")
        right = most_confident[residuals[most_confident] <= RIGHT]
        pair = PairScores(
            np.array(errors),
            float(accuracies.mean()),
            len(indices),
            len(right),
            distinct_places(points1[right]),
            (len(features1.frames) + len(features2.frames)) / 2,
        )
        return pair, accuracies


def _scale(image: np.ndarray, features: Features) -> np.ndarray:
    """The map [3, 3] from pixels of an image to those in which its features are."""
    return np.vstack([resizing_map(image.shape, features.image_size[::-1]), [0, 0, 1]])
