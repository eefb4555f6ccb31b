"""Compares detectors and descriptors on image pairs, the homographies being known.

python benchmarks/match_pairs.py --data=DATA --max_keypoints=1000,4000,8000 --output=pairs.jsonl
python benchmarks/match_pairs.py --data=oxford --pairs=graf/3 --models=learned:doap-128,rootsift
python benchmarks/match_pairs.py --data=oxford --models=doap-128,rootsift --magnifications=14,8+28

A model is DETECTOR:DESCRIPTOR, or a descriptor alone on DoG keypoints. Detectors are those of
match_main.py, with `_upright` behind them for upright keypoints, OpenCV's orb and akaze, and the
peers aliked and r2d2, whose descriptors are called `own`. Magnifications go for every descriptor on
patches; without one, SIFT and RootSIFT are OpenCV's own.

- repeated: share of the keypoints in the common area that the other image has within the tolerance.
- found: how many keypoints of the first image the second has within the tolerance, one to one, at
  nearly their scale and orientation. Right matches may be more, as only their positions are judged.
- right: number of mutual nearest neighbours that the homography maps to within the tolerance of
  each other; places: those at distinct places, one in 3 px; share: right ones of all matches.
- AUC: area under the curve of homographies with a mean corner error below 0 to 1, 3, 5 px, as
  `Verifier("homography")` estimates them; H: how many are within 5 px.
- detect, describe: median seconds for the second images of the pairs, at the largest number of
  keypoints; smaller numbers are the strongest of these. Peers describe while they detect.

Numbers are summed over the pairs, shares averaged. In brackets: 95 % intervals, by drawing the
pairs again. With --baseline a second table has the differences from it on the same pairs; one whose
interval contains 0 is no gain.
"""

import functools
import itertools
import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring
import pair_scores

from doap_tf import command_line
from doap_tf.drawing.matches import draw_matches
from doap_tf.drawing.pictures import write_picture
from doap_tf.drawing.tables import Table
from doap_tf.environment import git_revision
from doap_tf.errors import InputError
from doap_tf.evaluation import peers, two_view_scores
from doap_tf.features.detectors import Detections, detect
from doap_tf.features.frames import transform_points
from doap_tf.matching import (
    DescriptorExtractor,
    Features,
    OpenCVExtractor,
    PairMatches,
    Verifier,
    match_features,
)
from doap_tf.progress import progress
from doap_tf.readers.image_sequences import IMAGES, read_image_sequence
from doap_tf.readers.images import as_grey

FLAGS = flags.FLAGS
_MODELS = (
    "dog:rootsift",
    "dog:doap-128",
    "dog:doap-mobile-256b",
    "hessian_affine:doap-128",
    "orb:own",
    "orb:doap-mobile-256b",
    "learned:rootsift",
    "learned:doap-128",
    "learned:doap-mobile-256b",
    "learned_upright:doap-128",
)
_PEERS = ("aliked", "r2d2")
_OPENCV: dict[str, Callable[[int | None], cv2.Feature2D]] = {
    "orb": lambda count: cv2.ORB.create(count or 100_000),  # must be told how many to look for
    "akaze": lambda count: cv2.xfeatures2d.AKAZE.create(),
}
_UPRIGHT = "_upright"
_LIMITS = (1, 3, 5)  # of corner errors, in pixels

flags.DEFINE_string("data", None, "Folder of image sequences, or of such folders.", required=True)
flags.DEFINE_list("pairs", [], "Pairs such as graf/3, the images 1 and 3; by default all.")
flags.DEFINE_list("models", [], "DETECTOR:DESCRIPTOR, or descriptors for DoG; by default many.")
flags.DEFINE_list(
    "magnifications",
    [],
    "Magnifications to try on every model, 8+28 being 8 and 28 pooled; by default its own.",
)
flags.DEFINE_list(
    "tolerances", ["3"], "Distances in pixels of right matches; the first is that of repeated."
)
flags.DEFINE_list("max_keypoints", ["4000"], "Numbers of the strongest keypoints; 0 for all.")
flags.DEFINE_string("baseline", None, "Model, as the table names it, to compare the others with.")
flags.DEFINE_string("aliked", None, "Folder of ALIKED's repository.")
flags.DEFINE_string("r2d2", None, "Folder of R2D2's repository.")
flags.DEFINE_string("output", None, "File of JSON lines to add to; what it has is not repeated.")
flags.DEFINE_string("pictures", None, "Folder for pictures of the matches.")

_Record = dict[str, Any]
_Key = tuple[str, str, int]  # model, pair, number of keypoints
_Detector = Callable[[np.ndarray], Features | Detections]


class Model(NamedTuple):
    """How images are described; without an extractor, by the peer that detects."""

    detector: str
    extractor: DescriptorExtractor | None


class Extraction(NamedTuple):
    """Features of an image, the strongest first, and the seconds of detection and description."""

    features: Features
    seconds: tuple[float, float]

    def strongest(self, count: int) -> Features:
        """Returns the given number of features; 0 for all."""
        return self.features.take(slice(count or None))


class Scene:
    """The images of a sequence, each of which a detector sees once.

    Args:
        folder: The sequence.
        detectors: Functions of an image, by name.
    """

    def __init__(self, folder: pathlib.Path, detectors: Mapping[str, _Detector]):
        sequence = read_image_sequence(folder)
        self.images = [np.ascontiguousarray(image[..., ::-1]) for image in sequence.images]
        self.homographies = sequence.homographies
        self._detectors = detectors
        self._detected: dict[tuple[str, int], tuple[Any, float]] = {}

    def extract(self, model: Model, number: int) -> Extraction:
        """Returns the features of an image, counted from 1."""
        image = self.images[number - 1]
        key = model.detector, number
        if key not in self._detected:
            self._detected[key] = _timed(self._detectors[model.detector], image)
        detected, detect_seconds = self._detected[key]
        if model.extractor is None:
            return Extraction(detected, (detect_seconds, 0.0))
        features, describe_seconds = _timed(model.extractor.describe, image, detected.frames)
        return Extraction(features, (detect_seconds, describe_seconds))


def main(argv: Sequence[str]) -> None:
    del argv
    tolerances = _numbers("tolerances", FLAGS.tolerances)
    counts = [int(count) for count in _numbers("max_keypoints", FLAGS.max_keypoints, least=0)]
    names, pairs = _names(), _pairs()
    if FLAGS.baseline and FLAGS.baseline not in names:
        raise InputError(f"--baseline must be one of {', '.join(names)}, not {FLAGS.baseline!r}.")
    records = _read_records(tolerances)
    missing = [key for key in itertools.product(names, pairs, counts) if key not in records]
    # All are loaded before the first is used, so that mistakes show at once; detectors before
    # descriptors, because R2D2's convolutions crash on ARM if TensorFlow was imported first.
    wanted = {name: names[name] for name in dict.fromkeys(key[0] for key in missing)}
    largest = 0 if 0 in counts else max(counts)
    detectors = {detector: _detector(detector, largest) for detector, _, _ in wanted.values()}
    models = {name: _model(*wanted[name]) for name in wanted}
    measuring.print_setting(
        "opencv-contrib-python-headless", "ai-edge-litert", "tensorflow", "torch"
    )
    measured = _measure(models, detectors, missing, largest, tolerances)
    for record in progress(measured, "pairs", total=len(missing)):
        records[_key(record)] = record
        _append(record)
    for count in counts:
        title = f"{count:,} keypoints" if count else "all keypoints"
        rows = {name: [records[name, pair, count] for pair in pairs] for name in names}
        _print(title, {name: _row(each) for name, each in rows.items()})
        if FLAGS.baseline:
            differences = {
                name: _differences(each, rows[FLAGS.baseline])
                for name, each in rows.items()
                if name != FLAGS.baseline
            }
            _print(f"{title}, minus {FLAGS.baseline}", differences)


def _measure(
    models: Mapping[str, Model],
    detectors: Mapping[str, _Detector],
    missing: Sequence[_Key],
    largest: int,
    tolerances: Sequence[float],
) -> Iterator[_Record]:
    """Yields the records of what is missing, one sequence after the other."""
    by_sequence = sorted(missing, key=lambda key: key[1].rpartition("/")[0])
    for sequence, keys in itertools.groupby(by_sequence, lambda key: key[1].rpartition("/")[0]):
        scene = Scene(pathlib.Path(FLAGS.data) / sequence, detectors)
        for name, keys_of_model in itertools.groupby(keys, lambda key: key[0]):
            extract = functools.cache(functools.partial(scene.extract, models[name]))
            for _, pair_name, count in keys_of_model:
                number = int(pair_name.rpartition("/")[2])
                one, two = extract(1), extract(number)
                pair = match_features(
                    one.strongest(count), two.strongest(count), verifier=Verifier("homography")
                )
                if FLAGS.pictures:
                    title = f"{pair_name} {name} {count}"
                    _draw(scene.images[0], scene.images[number - 1], pair, title)
                yield {
                    "model": name,
                    "pair": pair_name,
                    "keypoints": count,
                    "tolerances": tolerances,
                    **_scores(pair, scene.homographies[number - 2], tolerances),
                    "git_revision": git_revision(),
                    "clock": FLAGS.clock,
                    "seconds": two.seconds if count == largest else None,
                }


def _scores(
    pair: PairMatches, homography: np.ndarray, tolerances: Sequence[float]
) -> dict[str, Any]:
    one, two = pair.features1, pair.features2
    errors = np.linalg.norm(transform_points(pair.points1, homography) - pair.points2, axis=1)
    corners = two_view_scores.corner_error(pair.model, homography, one.image_size)
    return {
        "repeated": pair_scores.repeatability(
            one.points, two.points, homography, one.image_size, two.image_size, tolerances[0]
        ),
        "found": [
            pair_scores.found_again(one.frames, two.frames, homography, tolerance)
            for tolerance in tolerances
        ],
        "matches": len(errors),
        "right": [int(np.sum(errors <= tolerance)) for tolerance in tolerances],
        "places": [
            two_view_scores.distinct_places(pair.points1[errors <= tolerance])
            for tolerance in tolerances
        ],
        "corner_error": corners if np.isfinite(corners) else None,
    }


def _print(title: str, rows: Mapping[str, Mapping[str, str]]) -> None:
    print(Table(rows, title).markdown() + "\n", flush=True)


def _figures(records: Sequence[_Record]) -> dict[str, float]:
    """What a table shows of the pairs of one model."""
    corners = np.array([record["corner_error"] for record in records], float)
    corners = np.nan_to_num(corners, nan=np.inf)  # None, that is, no homography
    figures = {"repeated": float(np.mean([record["repeated"] for record in records]))}
    for index, tolerance in enumerate(records[0]["tolerances"]):
        for name in ("found", "right", "places"):
            total = sum(record[name][index] for record in records)
            figures[f"{name}, {tolerance:g} px"] = total
        shares = [record["right"][index] / max(record["matches"], 1) for record in records]
        figures[f"share, {tolerance:g} px"] = float(np.mean(shares))
    for limit in _LIMITS:
        area = two_view_scores.area_under_curve(corners, limit)
        figures[f"AUC {limit} px"] = float(area)
    return figures | {"H": int(np.sum(corners <= _LIMITS[-1]))}


def _row(records: Sequence[_Record]) -> dict[str, str]:
    """The columns of a table for the pairs of one model, with intervals where there are several."""
    row = {name: _form(value) for name, value in _figures(records).items()}
    if len(records) > 1:
        for name, (low, high) in _intervals(lambda rows: _drawn(records, rows), records).items():
            row[name] += f" ({_form(low)}–{_form(high)})"
    if all(record["seconds"] and record["clock"] == FLAGS.clock for record in records):
        detect_seconds, describe_seconds = np.median([each["seconds"] for each in records], axis=0)
        row["detect"], row["describe"] = f"{detect_seconds:.2f}", f"{describe_seconds:.2f}"
    return row


def _differences(records: Sequence[_Record], others: Sequence[_Record]) -> dict[str, str]:
    """The columns of a table of differences from other results on the same pairs."""
    theirs = _figures(others)
    differences = {name: value - theirs[name] for name, value in _figures(records).items()}
    intervals = _intervals(lambda rows: _drawn(records, rows) - _drawn(others, rows), records)
    return {
        name: f"{_form(value, '+')} ({' … '.join(_form(end, '+') for end in intervals[name])})"
        for name, value in differences.items()
    }


def _drawn(records: Sequence[_Record], rows: np.ndarray) -> np.ndarray:
    return np.array(list(_figures([records[row] for row in rows]).values()))


def _intervals(
    statistic: Callable[[np.ndarray], np.ndarray], records: Sequence[_Record]
) -> dict[str, np.ndarray]:
    """Bounds [2] of every figure, rounded as the figure is."""
    bounds = two_view_scores.bootstrap_interval(statistic, len(records)).T
    figures = _figures(records)
    return {
        name: bound.round().astype(int) if isinstance(value, int) else bound
        for (name, value), bound in zip(figures.items(), bounds, strict=True)
    }


def _form(value: float, sign: str = "") -> str:
    return f"{value:{sign}.3f}" if isinstance(value, float) else f"{value:{sign},}"


def _numbers(flag: str, values: Sequence[str], least: float = np.nextafter(0, 1)) -> list[float]:
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = []
    if not numbers or not all(least <= number < np.inf for number in numbers):
        bound = "above 0" if least > 0 else "of at least 0"
        raise InputError(f"--{flag} must be numbers {bound}, not {', '.join(values)!r}.")
    return numbers


def _names() -> dict[str, tuple[str, str, list[float] | None]]:
    """Returns detector, descriptor and magnifications of every model by its name."""
    given = [peer for peer in _PEERS if FLAGS[peer].value]
    models = FLAGS.models or [
        *_MODELS,
        *(f"{peer}:{descriptor}" for peer in given for descriptor in ("own", "doap-128")),
    ]
    magnifications = [_numbers("magnifications", text.split("+")) for text in FLAGS.magnifications]
    names: dict[str, tuple[str, str, list[float] | None]] = {}
    for model in models:
        detector, colon, descriptor = model.partition(":")
        if not colon:
            detector, descriptor = "dog", model
        name = f"{detector}:{descriptor}"
        if descriptor == "own" or not magnifications:
            names[name] = detector, descriptor, None
            continue
        for pooled in magnifications:
            label = "+".join(f"{magnification:g}" for magnification in pooled)
            names[f"{name} at {label}"] = detector, descriptor, pooled
    return names


def _model(detector: str, descriptor: str, magnifications: list[float] | None) -> Model:
    if descriptor == "own":
        if detector not in (*_OPENCV, *_PEERS):
            raise InputError(f"{detector} has no descriptor of its own: name one in --models.")
        return Model(detector, None)
    kind = "dog" if detector in _PEERS else detector.removesuffix(_UPRIGHT)
    return Model(detector, DescriptorExtractor(descriptor, kind, magnification=magnifications))


def _detector(name: str, max_keypoints: int) -> _Detector:
    count = max_keypoints or None
    if name in _OPENCV:
        return OpenCVExtractor(_OPENCV[name](count), count).extract
    if name in _PEERS:
        folder = FLAGS[name].value
        if not folder:
            raise InputError(f"give --{name}, the folder of its repository.")
        peer = peers.Aliked if name == "aliked" else peers.R2d2
        return peer(folder, count).extract
    kind, oriented = name.removesuffix(_UPRIGHT), not name.endswith(_UPRIGHT)
    return lambda image: detect(as_grey(image), kind, count, oriented)


def _pairs() -> list[str]:
    """Returns the pairs, each as its sequence's folder below --data and a number from 2 to 6."""
    numbers = [str(number) for number in range(2, IMAGES + 1)]
    for pair in FLAGS.pairs:
        if pair.rpartition("/")[2] not in numbers:
            raise InputError(
                f"--pairs must be like graf/3, with a number from 2 to 6, not {pair!r}."
            )
    if FLAGS.pairs:
        return FLAGS.pairs
    data = pathlib.Path(FLAGS.data)
    sequences = sorted(
        {
            path.parent.relative_to(data).as_posix()
            for depth in ("*", "*/*")
            for matrix in ("H1to2p", "H_1_2")
            for path in data.glob(f"{depth}/{matrix}")
        }
    )
    if not sequences:
        raise InputError(f"{data} holds no image sequences with H1to2p or H_1_2.")
    return [f"{sequence}/{number}" for sequence in sequences for number in numbers]


def _key(record: _Record) -> _Key:
    return record["model"], record["pair"], record["keypoints"]


def _read_records(tolerances: Sequence[float]) -> dict[_Key, _Record]:
    """Returns what --output has for these tolerances."""
    path = pathlib.Path(FLAGS.output or os.devnull)
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    try:
        records = [json.loads(line) for line in lines]
        known = {_key(each): each for each in records if each["tolerances"] == tolerances}
        _ = [each["places"] for each in known.values()]
        return known
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} does not hold results of this command ({error}); give another --output."
        ) from error


def _append(record: _Record) -> None:
    if FLAGS.output:
        with open(FLAGS.output, "a") as file:
            file.write(json.dumps(record) + "\n")


def _timed(function: Callable, *arguments: Any) -> tuple[Any, float]:
    start = measuring.clock()
    result = function(*arguments)
    return result, measuring.clock() - start


def _draw(image1: np.ndarray, image2: np.ndarray, pair: PairMatches, title: str) -> None:
    name = re.sub(r"[^\w.+-]", "_", title)
    picture = draw_matches(image1, image2, pair, title)
    write_picture(pathlib.Path(FLAGS.pictures) / f"{name}.png", picture)


if __name__ == "__main__":
    command_line.run(main)
