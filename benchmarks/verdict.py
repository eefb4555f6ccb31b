"""Measures how often a pair is judged rightly: unrelated photographs, and true pairs.

python benchmarks/verdict.py --data=DATA --models=doap-fast-128,dog:rootsift --cache=verdict

DATA holds `photos/urban100`, `photos/bsds500`, `webcam/SCENE`, `sfm/SCENE`, `pose/castle_p19`,
`pose/entry_p10` (with cameras) and `hpatches_images/SEQUENCE` (with homographies). Scenes are dealt
to two halves. Pairs of a half never meet a scene of the other: unrelated ones, at random but more
than a third of them of façades and textures that repeat (urban100), and all true ones among eight
images of each webcam, the cameras of a building, and a sequence. The evidence from which a pair is
reliable is calibrated on one half; the other is reported.

- right: matches that the truth maps to within 5 pixels; for cameras those within 3 pixels of their
  epipolar lines, less what chance gives.
- matched: pairs declared reliable, with 95 % intervals (Wilson); of true ones those with at least
  30 right matches.
- homography: how many of the matched pairs of webcams, whose camera stands still, and of buildings
  have one.

A model is DETECTOR:DESCRIPTOR, or an extractor or a descriptor at learned keypoints. Matches are
mutual nearest neighbours; they are kept in --cache, so that another rule is measured in minutes.
With --turned the second image of every unrelated pair is turned by one, two and three quarters, as
`rotations="auto"` turns it, and a pair counts as matched if it is matched at any angle.
"""

import itertools
import json
import math
import pathlib
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from doap_tf import command_line
from doap_tf.catalogue import DEFAULT_DETECTOR
from doap_tf.drawing.tables import Table
from doap_tf.features.frames import transform_points
from doap_tf.files import write_atomically, write_file
from doap_tf.matching import DenseExtractor, DescriptorExtractor, Extractor, NearestNeighbours
from doap_tf.matching.model_residuals import model_residuals
from doap_tf.matching.verdict import RELIABLE_EVIDENCE
from doap_tf.matching.verifier import Verifier
from doap_tf.progress import progress
from doap_tf.readers.image_sequences import read_homography
from doap_tf.readers.images import read_image
from doap_tf.zoo.loading import network_of_images

FLAGS = flags.FLAGS
_WEBCAM_IMAGES, _SFM_IMAGES = 8, 8  # of a scene
_KINDS = {"urban": 0.36, "bsds": 0.16, "webcam": 0.18, "sfm": 0.16, "pose": 0.11, "hpatches": 0.03}
_RIGHT = 30  # matches from which a true pair should be found
_TOLERANCE, _EPIPOLAR_TOLERANCE = 5.0, 3.0  # pixels
_ARRAYS = ("points1", "points2", "distances")

flags.DEFINE_string("data", None, "Folder of the photographs.", required=True)
flags.DEFINE_list("models", ["doap-fast-128"], "DETECTOR:DESCRIPTOR, descriptors or extractors.")
flags.DEFINE_integer("unrelated", 250, "Unrelated pairs of each half.")
flags.DEFINE_boolean("turned", False, "Only unrelated pairs, at all quarter turns.")
flags.DEFINE_integer("max_keypoints", 2000, "Number of the strongest keypoints.")
flags.DEFINE_string("cache", None, "Folder for matches and verdicts.", required=True)


class Pair(NamedTuple):
    """Two images; `kind` is `"unrelated"` or names the truth."""

    half: int
    kind: str
    path1: pathlib.Path
    path2: pathlib.Path


def find_pairs(data: pathlib.Path) -> list[Pair]:
    """Returns the pairs of both halves, the same in every run."""
    pairs: list[Pair] = []
    for half in (0, 1):
        images = _images(data, half)
        random = np.random.default_rng(half)
        seen: set[frozenset[pathlib.Path]] = set()
        while len(seen) < FLAGS.unrelated:
            kinds = random.choice(list(_KINDS), 2, p=list(_KINDS.values()))
            (scene1, path1), (scene2, path2) = (
                images[kind][random.integers(len(images[kind]))] for kind in kinds
            )
            if scene1 != scene2 and frozenset((path1, path2)) not in seen:
                seen.add(frozenset((path1, path2)))
                pairs.append(Pair(half, "unrelated", path1, path2))
        for kind in ("webcam", "pose", "hpatches"):
            for _, scene in itertools.groupby(images[kind], lambda image: image[0]):
                paths = [path for _, path in scene]
                pairs += [Pair(half, kind, *two) for two in itertools.combinations(paths, 2)]
    return pairs


def _images(data: pathlib.Path, half: int) -> dict[str, list[tuple[str, pathlib.Path]]]:
    """Scenes and paths of a half, by kind."""
    webcams, scenes = (sorted((data / name).iterdir())[half::2] for name in ("webcam", "sfm"))
    buildings = data / "pose/castle_p19", data / "pose/entry_p10"
    sequences = sorted((data / "hpatches_images").iterdir(), reverse=True)
    return {
        "urban": [(path.stem, path) for path in _photographs(data / "photos/urban100")[half::2]],
        "bsds": [(path.stem, path) for path in _photographs(data / "photos/bsds500")[half::12]],
        "webcam": [(s.name, p) for s in webcams for p in _photographs(s, _WEBCAM_IMAGES)],
        "sfm": [(s.name, p) for s in scenes for p in _photographs(s, _SFM_IMAGES)],
        "pose": [(buildings[half].name, path) for path in _photographs(buildings[half])],
        "hpatches": [(s.name, p) for s in sequences[half::2] for p in _photographs(s)],
    }


def _photographs(folder: pathlib.Path, count: int | None = None) -> list[pathlib.Path]:
    """Photographs of a folder, all or so many at equal distances."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".jpg", ".png", ".ppm"))
    if count is None:
        return paths
    return [paths[row] for row in np.unique(np.linspace(0, len(paths) - 1, count).astype(int))]


def count_right(pair: Pair, points1: np.ndarray, points2: np.ndarray, sizes: np.ndarray) -> float:
    """Returns how many matches the truth confirms; of cameras an estimate."""
    if pair.kind == "pose":
        model = _true_fundamental(pair, sizes)
        fits = model_residuals(points1[:, None], points2, "fundamental", model)
        fits = fits <= _EPIPOLAR_TOLERANCE
        chance = fits[~np.eye(len(fits), dtype=bool)].mean()
        return (fits.diagonal().sum() - chance * len(fits)) / (1 - chance)
    homography = np.eye(3)
    if pair.kind == "hpatches":
        first, second = (_from_first(path) for path in (pair.path1, pair.path2))
        homography = second @ np.linalg.inv(first)
    distances = np.linalg.norm(transform_points(points1, homography) - points2, axis=1)
    return float((distances <= _TOLERANCE).sum())


def _from_first(path: pathlib.Path) -> np.ndarray:
    if path.stem == "1":
        return np.eye(3)
    return read_homography(path.with_name(f"H_1_{path.stem}"))


def _true_fundamental(pair: Pair, sizes: np.ndarray) -> np.ndarray:
    (inverse1, rotation1, centre1), (inverse2, rotation2, centre2) = (
        _camera(path, size) for path, size in zip((pair.path1, pair.path2), sizes, strict=True)
    )
    x, y, z = rotation2.T @ (centre1 - centre2)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return inverse2.T @ cross @ rotation2.T @ rotation1 @ inverse1


def _camera(path: pathlib.Path, size: np.ndarray) -> tuple[np.ndarray, ...]:
    """The inverse of K at the image's size, the camera's axes as columns, and its centre."""
    numbers = np.array(path.with_name(f"{path.name}.camera").read_text().split(), float)
    scale = size[0] / numbers[24]
    shift = (scale - 1) / 2
    scaling = np.array([[scale, 0, shift], [0, scale, shift], [0, 0, 1]])
    intrinsics = scaling @ numbers[:9].reshape(3, 3)
    return np.linalg.inv(intrinsics), numbers[12:21].reshape(3, 3), numbers[21:24]


def _extractor(model: str) -> Extractor:
    detector, _, descriptor = model.rpartition(":")
    if network_of_images(descriptor) == "DenseNetwork":
        return DenseExtractor(descriptor, FLAGS.max_keypoints)
    return DescriptorExtractor(descriptor, detector or DEFAULT_DETECTOR, FLAGS.max_keypoints)


def _matches(model: str, pairs: list[Pair], quarters: int) -> Iterator[dict[str, np.ndarray]]:
    """Yields points, distances and image sizes of every pair; a file in --cache keeps them."""
    turned = f"-turned-{quarters}" if FLAGS.turned else ""
    file = pathlib.Path(FLAGS.cache, f"{_file_name(model)}{turned}.npz")
    if not file.exists():
        extractor, matcher = _extractor(model), NearestNeighbours()
        paths = {path for pair in pairs for path in (pair.path1, pair.path2)}
        features = {
            path: extractor.extract(read_image(path))
            for path in progress(sorted(paths), f"describing by {model}")
        }
        others = features
        if quarters:
            paths = {pair.path2 for pair in pairs}
            others = {
                path: extractor.extract(np.rot90(read_image(path), quarters).copy())
                for path in progress(sorted(paths), f"describing by {model}, turned")
            }
        arrays = {}
        for number, pair in enumerate(progress(pairs, "matching")):
            one, two = features[pair.path1], others[pair.path2]
            indices, _, distances = matcher.match(one, two)
            arrays[f"points1_{number}"] = one.points[indices[:, 0]].astype(np.float32)
            arrays[f"points2_{number}"] = two.points[indices[:, 1]].astype(np.float32)
            arrays[f"distances_{number}"] = distances
            arrays[f"sizes_{number}"] = np.array([one.image_size, two.image_size])
        with write_atomically(file) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
    with np.load(file) as arrays:
        for number in range(len(pairs)):
            yield {name: arrays[f"{name}_{number}"] for name in (*_ARRAYS, "sizes")}


def judge(model: str, pairs: list[Pair], quarters: int = 0) -> list[dict[str, Any]]:
    """Returns a record of every pair: half, kind, matches, right, geometry, inliers, evidence."""
    records = []
    verifier = Verifier()
    for pair, matches in zip(
        progress(pairs, f"verifying {model}"), _matches(model, pairs, quarters), strict=True
    ):
        points1, points2, distances = (matches[name].astype(float) for name in _ARRAYS)
        found = verifier.verify_points(points1, points2, distances)
        right = 0.0
        if pair.kind != "unrelated" and len(points1) > 1:
            right = count_right(pair, points1, points2, matches["sizes"])
        records.append(
            {
                "half": pair.half,
                "kind": pair.kind,
                "images": [f"{path.parent.name}/{path.name}" for path in pair[2:]],
                "matches": len(points1),
                "right": right,
                "geometry": found.geometry,
                "inliers": int(found.inliers.sum()),
                "evidence": RELIABLE_EVIDENCE * found.confidence / (1 - found.confidence),
            }
        )
    return records


def calibrate(records: list[dict[str, Any]]) -> float:
    """Returns the least evidence that at most 1 % of the first half's unrelated pairs exceed."""
    found = sorted(r["evidence"] for r in records if r["kind"] == "unrelated" and not r["half"])
    return found[math.ceil(0.99 * len(found)) - 1]


def row(records: list[dict[str, Any]]) -> dict[str, str]:
    """Returns a model's line of the table, over the second half."""
    second = [record for record in records if record["half"]]
    true = [r for r in second if r["kind"] != "unrelated" and r["right"] >= _RIGHT]
    reliable = {
        kind: [r for r in true if r["kind"] == kind and r["evidence"] >= RELIABLE_EVIDENCE]
        for kind in ("webcam", "pose")
    }
    planes = {
        kind: f"{sum(r['geometry'] == 'homography' for r in found)} of {len(found)}"
        for kind, found in reliable.items()
    }
    return {
        "calibrated": f"{calibrate(records):.1f}",
        "unrelated matched": _share([r for r in second if r["kind"] == "unrelated"]),
        "true matched": _share(true),
        "homography: webcams": planes["webcam"],
        "buildings": planes["pose"],
    }


def turned_row(model: str, pairs: list[Pair]) -> dict[str, str]:
    """Returns a model's line of the table of unrelated pairs at all quarter turns."""
    pairs = [pair for pair in pairs if pair.kind == "unrelated"]
    upright, *turned = (judge(model, pairs, quarters) for quarters in range(4))
    best = [
        max(records, key=lambda r: r["evidence"]) for records in zip(upright, *turned, strict=True)
    ]
    return {"upright": _share(upright), "at any angle": _share(best)}


def _file_name(model: str) -> str:
    return model.replace(":", "-").replace("/", "-")


def _share(records: list[dict[str, Any]]) -> str:
    """How many are reliable, with the interval of Wilson."""
    count, z = len(records), 1.96
    matched = sum(record["evidence"] >= RELIABLE_EVIDENCE for record in records)
    share = matched / count
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    low, high = max(0.0, centre - half), min(1.0, centre + half)
    return f"{matched} of {count}: {100 * share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def main(argv: list[str]) -> None:
    del argv
    pairs = find_pairs(pathlib.Path(FLAGS.data))
    pathlib.Path(FLAGS.cache).mkdir(parents=True, exist_ok=True)
    rows = {}
    for model in FLAGS.models:
        if FLAGS.turned:
            rows[model] = turned_row(model, pairs)
            continue
        records = judge(model, pairs)
        write_file(
            pathlib.Path(FLAGS.cache, f"{_file_name(model)}.jsonl"),
            "".join(json.dumps(record) + "\n" for record in records),
        )
        rows[model] = row(records)
    print(Table(rows, "model").markdown())


if __name__ == "__main__":
    command_line.run(main)
