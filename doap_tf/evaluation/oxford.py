"""Image pairs with homographies: detected frames, greedy matches, correctness by overlap."""

import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np

from doap_tf.drawing.plots import Curve
from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import DescriptorCache, array_hash
from doap_tf.evaluation.greedy import greedy_count, greedy_matches
from doap_tf.evaluation.model import Model
from doap_tf.evaluation.result import EXAMPLES, Examples, Plots, Result
from doap_tf.evaluation.seen import image_sequence, what_was_seen
from doap_tf.evaluation.two_view_scores import bootstrap_interval
from doap_tf.features.cutting import cut_patches
from doap_tf.features.detectors import check_detector, detect
from doap_tf.features.frames import inside, transform_frames
from doap_tf.features.overlap import overlapping_pairs
from doap_tf.metrics import average_precision, precision_recall_curve
from doap_tf.progress import progress
from doap_tf.readers import list_image_sequences, read_image_sequence

DETECTORS = ("harris_affine", "dog")
PAPER_MAGNIFICATION = 3.0

_PATCH = 65
_OVERLAP = 0.5
_NORMALISED_RADIUS = 30.0  # as in Mikolajczyk et al. and in VLBenchmarks
_EXAMPLES_PER_PAIR = 3


class _DetectedImage(NamedTuple):
    """An image with its detected frames."""

    image: np.ndarray  # uint8 [H, W]
    frames: np.ndarray  # float64 [N, 2, 3]

    def content(self, magnification: float) -> str:
        return f"{array_hash(self.image)} {array_hash(self.frames)} {magnification} {_PATCH}"

    def patches(self, magnification: float, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        return cut_patches(self.image, self.frames[chosen], _PATCH, magnification)


class _Truth(NamedTuple):
    """Frames of two images that correspond under a homography.

    Attributes:
        first, second: Indices of the frames that lie in both images.
        codes: Overlapping pairs: position in `first` · len(second) + position in `second`.
        positives: Size of a greedy one-to-one choice among them.
    """

    first: np.ndarray
    second: np.ndarray
    codes: np.ndarray
    positives: int


class _Matches(NamedTuple):
    """Matches of one pair of images: distances [N], correctness [N], matches to find."""

    distances: np.ndarray
    right: np.ndarray
    positives: int


class Oxford:
    """The benchmark on a folder of image sequences, Oxford's or those of HPatches.

    Args:
        folder: Folder with one subfolder per sequence, or a single sequence.
        cache_dir: Folder for descriptors.
        detectors: Names of `doap_tf.features.detectors.DETECTORS`.
        magnification: Half the side of a patch over the radius of its frame; None for each
            descriptor's own, which is the paper's for a descriptor that has none.
        method: As for `average_precision`.
        memory_mb: Limit for distances in memory.
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        cache_dir: str | os.PathLike,
        *,
        detectors: Sequence[str] = DETECTORS,
        magnification: float | None = PAPER_MAGNIFICATION,
        method: str = "trapezoid",
        memory_mb: float = 1024,
    ):
        if magnification is not None and not 0 < magnification < np.inf:
            raise InputError(f"magnification must be a number above 0, not {magnification}.")
        for detector in detectors:
            check_detector(detector)
        folder = pathlib.Path(folder)
        single = any((folder / name).is_file() for name in ("H1to2p", "H_1_2"))
        self._folders = [folder] if single else list_image_sequences(folder)
        self._cache_dir = pathlib.Path(cache_dir)
        self._detectors = tuple(detectors)
        self._magnification = magnification
        self._method = method
        self._memory_mb = memory_mb
        # Frames of each image and truths of each pair, shared by all models.
        self._detected: dict[tuple[pathlib.Path, str], tuple[list[np.ndarray], list[_Truth]]] = {}

    def evaluate(self, model: Model) -> Result:
        """Detects, describes and matches all pairs with a model."""
        magnification, whose = self._magnification_for(model)
        scores: dict[str, Any] = {detector: {} for detector in self._detectors}
        matches: dict[str, list[_Matches]] = {detector: [] for detector in self._detectors}
        examples: dict[bool, list[tuple[float, np.ndarray]]] = {True: [], False: []}
        for folder in progress(self._folders, f"image pairs ({model.name})"):
            sequence = read_image_sequence(folder)
            images = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in sequence.images]
            for detector in self._detectors:
                key = folder, detector
                if key not in self._detected:
                    self._detected[key] = _detect(images, sequence.homographies, detector)
                frames, truths = self._detected[key]
                detected = list(map(_DetectedImage, images, frames))
                pairs = self._match(model, magnification, detected, truths, examples)
                values = {
                    f"1-{number}": average_precision(*pair[:2], self._method, pair.positives)
                    for number, pair in enumerate(pairs, start=2)
                }
                scores[detector][sequence.name] = values | {
                    "mean": float(np.mean(list(values.values())))
                }
                matches[detector] += pairs
        details: dict[str, dict[str, float]] = {}
        for detector, by_sequence in scores.items():
            means = {name: values["mean"] for name, values in by_sequence.items()}
            by_pair = np.array([[*values.values()][:-1] for values in by_sequence.values()])
            by_sequence["mean"] = float(np.mean(list(means.values())))
            by_sequence["interval"] = _interval(by_pair.ravel())
            details[f"{detector}, mAP over five pairs"] = means
            details[f"{detector}, 95 % interval of the mAP"] = by_sequence["interval"]
        names = [folder.resolve().name for folder in self._folders]
        return Result(
            benchmark="oxford",
            protocol=f"{', '.join(self._detectors)} frames, "
            f"patches at {magnification:g}× ({whose}), "
            f"greedy one-to-one matches, overlap error below {1 - _OVERLAP} at a radius of "
            f"{_NORMALISED_RADIUS:.0f} pixels; average precision by {self._method}",
            split=",".join(names),
            seed=None,
            model=model,
            scores=scores,
            summary={f"mAP {detector}": scores[detector]["mean"] for detector in self._detectors},
            plots=_plots(matches, examples),
            details=details,
            seen=what_was_seen(model, map(image_sequence, names)),
        )

    def _magnification_for(self, model: Model) -> tuple[float, str]:
        """Returns the magnification of a model's patches, and whose it is."""
        if self._magnification is not None:
            papers = self._magnification == PAPER_MAGNIFICATION
            return self._magnification, "the paper's" if papers else "chosen"
        if model.magnification is None:
            return PAPER_MAGNIFICATION, "the paper's; the descriptor has none of its own"
        return model.magnification, "the descriptor's own"

    def _match(
        self,
        model: Model,
        magnification: float,
        detected: list[_DetectedImage],
        truths: list[_Truth],
        examples: dict[bool, list[tuple[float, np.ndarray]]],
    ) -> list[_Matches]:
        """Matches the first image with each other one, and adds a few `examples`."""
        cache = DescriptorCache(self._cache_dir / "descriptors", model)
        first, *others = (
            cache.describe(
                image.content(magnification),
                functools.partial(image.patches, magnification),
                "patches cut from images",
            )
            for image in detected
        )
        result = []
        for image, descriptors, truth in zip(detected[1:], others, truths, strict=True):
            rows, columns, distances = greedy_matches(
                first[truth.first],
                descriptors[truth.second],
                model.descriptor.norm,
                self._memory_mb,
            )
            right = np.isin(rows * len(truth.second) + columns, truth.codes)
            # Another one-to-one choice may find more pairs than the greedy one by overlap.
            result.append(_Matches(distances, right, max(truth.positives, int(right.sum()))))
            for kind, kept in examples.items():
                chosen = np.flatnonzero(right == kind)[:_EXAMPLES_PER_PAIR]
                patches = np.stack(
                    [
                        detected[0].patches(magnification, truth.first[rows[chosen]]),
                        image.patches(magnification, truth.second[columns[chosen]]),
                    ],
                    axis=1,
                )
                kept += zip(distances[chosen].tolist(), patches, strict=True)
        return result


def _detect(
    images: list[np.ndarray], homographies: np.ndarray, detector: str
) -> tuple[list[np.ndarray], list[_Truth]]:
    first, *others = frames = [detect(image, detector).frames for image in images]
    truths = []
    for image, second, homography in zip(images[1:], others, homographies, strict=True):
        mapped = transform_frames(first, homography)
        seen = np.flatnonzero(inside(mapped, image.shape))
        mapped_back = transform_frames(second, np.linalg.inv(homography))
        seen_back = np.flatnonzero(inside(mapped_back, images[0].shape))
        rows, columns, overlaps = overlapping_pairs(
            mapped[seen], second[seen_back], np.nextafter(_OVERLAP, 1), _NORMALISED_RADIUS
        )
        codes = rows * len(seen_back) + columns
        truths.append(_Truth(seen, seen_back, codes, greedy_count(rows, columns, -overlaps)))
    return frames, truths


def _interval(precisions: np.ndarray) -> dict[str, float]:
    """Returns the bounds of the mean of pairs [N]: 95 %, by drawing the pairs again."""
    low, high = bootstrap_interval(lambda rows: precisions[rows].mean(), len(precisions))
    return {"low": float(low), "high": float(high)}


def _plots(
    matches: dict[str, list[_Matches]], examples: dict[bool, list[tuple[float, np.ndarray]]]
) -> Plots:
    plots = Plots()
    for detector, pairs in matches.items():
        distances = np.concatenate([pair.distances for pair in pairs])
        right = np.concatenate([pair.right for pair in pairs])
        positives = sum(pair.positives for pair in pairs)
        precision, recall = precision_recall_curve(distances, right, positives)
        plots.precision_recall[detector] = Curve.thinned(recall, precision)
        plots.distances[detector] = (distances[right], distances[~right])
    for kind, title in ((True, "Nearest right matches"), (False, "Nearest wrong matches")):
        if examples[kind]:
            nearest = sorted(examples[kind], key=lambda one: one[0])[:EXAMPLES]
            patches = np.stack([patches for _, patches in nearest], axis=1)
            plots.examples.append(Examples(title, ("first image", "other image"), patches))
    return plots
