"""What benchmarks of image pairs have in common: scores with intervals, differences, records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from doap_tf.evaluation.feature_cache import FeatureCache
from doap_tf.evaluation.image_model import ImageModel
from doap_tf.evaluation.result import Result
from doap_tf.evaluation.seen import what_was_seen
from doap_tf.evaluation.two_view_scores import area_under_curve, bootstrap_interval

SEEDS = 5  # of the estimator; scores are means over them


class PairScores(NamedTuple):
    """Scores of one pair of images.

    Attributes:
        errors: [S], of the model that each seed of the estimator gives; infinite without one.
        share: Of the matches that are right.
        matches, right, distinct: Numbers of matches, right ones, and right ones at distinct places.
        keypoints: Mean number in the two images.
    """

    errors: np.ndarray
    share: float
    matches: int
    right: int
    distinct: int
    keypoints: float


class PairResults:
    """Makes the results of models on the same pairs, each compared with the first model.

    Args:
        benchmark: Its name.
        limits: Of errors, for areas under the curve.
        unit: Of the errors, with a space before it where one belongs.
        share: Name of the share of right matches.
    """

    def __init__(self, benchmark: str, limits: Sequence[float], unit: str, share: str):
        self._benchmark = benchmark
        self._limits = {f"AUC {limit:g}{unit}": limit for limit in limits}
        self._share = share
        self._first: tuple[str, np.ndarray] | None = None

    def result(
        self,
        model: ImageModel,
        protocol: str,
        groups: Mapping[str, Mapping[str, PairScores]],
        cache: FeatureCache,
        measures: Mapping[str, float],
        settings: Mapping[str, Any],
        scenes: Iterable[str],
    ) -> Result:
        """Makes a result.

        Args:
            model: The model.
            protocol: How it was measured.
            groups: Scores by group and name of the pair.
            cache: What extracted the features.
            measures, settings: Further ones, for tables and for the record.
            scenes: Of the images, as `DATASET/SCENE`.
        """
        pairs = [pair for by_name in groups.values() for pair in by_name.values()]
        errors = _errors(pairs)
        first, first_errors = self._first = self._first or (model.name, errors)
        by_group = {group: self._scores(list(each.values())) for group, each in groups.items()}
        summary = self._scores(pairs)
        details = {f"95 % interval of {len(pairs)} pairs": self._intervals(errors)}
        if first != model.name:
            details[f"Difference to {first}"] = self._differences(errors, first_errors)
        if len(groups) > 1:
            details |= {
                title: {group: scores[title] for group, scores in by_group.items()}
                for title in summary
            }
        return Result(
            benchmark=self._benchmark,
            protocol=protocol,
            split=",".join(groups),
            seed=0,
            model=model,
            scores={"all": summary, **by_group},
            summary=summary,
            details=details,
            seen=what_was_seen(model, scenes),
            measures={
                "right at distinct places": _mean(pair.distinct for pair in pairs),
                "matches": _mean(pair.matches for pair in pairs),
                "keypoints": _mean(pair.keypoints for pair in pairs),
                "seconds an image": float(np.median(cache.seconds)),
                "CPU seconds": float(np.median(cache.cpu_seconds)),
                **measures,
            },
            further={
                "settings": {**model.settings, **settings},
                "pairs": {
                    f"{group}: {name}": _record(pair)
                    for group, by_name in groups.items()
                    for name, pair in by_name.items()
                },
            },
        )

    def _scores(self, pairs: Sequence[PairScores]) -> dict[str, float]:
        return {
            **self._named("", self._areas(_errors(pairs))),
            self._share: _mean(pair.share for pair in pairs),
        }

    def _areas(self, errors: np.ndarray) -> np.ndarray:
        """Means over seeds of the areas under the curve of errors [S, N], one for each limit."""
        return np.array([area_under_curve(errors, limit).mean() for limit in self._limits.values()])

    def _intervals(self, errors: np.ndarray) -> dict[str, float]:
        bounds = bootstrap_interval(lambda rows: self._areas(errors[:, rows]), errors.shape[1])
        return self._named("from", bounds[0]) | self._named("to", bounds[1])

    def _differences(self, errors: np.ndarray, first: np.ndarray) -> dict[str, float]:
        def difference(rows: np.ndarray) -> np.ndarray:
            return self._areas(errors[:, rows]) - self._areas(first[:, rows])

        count = errors.shape[1]
        bounds = bootstrap_interval(difference, count)
        return (
            self._named("", difference(np.arange(count)))
            | self._named("from", bounds[0])
            | self._named("to", bounds[1])
        )

    def _named(self, word: str, values: np.ndarray) -> dict[str, float]:
        titles = (f"{title} {word}".strip() for title in self._limits)
        return dict(zip(titles, values.tolist(), strict=True))


def _errors(pairs: Sequence[PairScores]) -> np.ndarray:
    """Returns errors [S, N]."""
    return np.stack([pair.errors for pair in pairs], axis=-1)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _record(pair: PairScores) -> dict[str, Any]:
    errors = [round(float(error), 4) if np.isfinite(error) else None for error in pair.errors]
    return {
        "errors": errors,
        "share": round(pair.share, 4),
        "matches": pair.matches,
        "right": pair.right,
        "distinct": pair.distinct,
    }
