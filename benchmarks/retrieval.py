"""Measures the shortlist of --pairs=retrieval: recall of overlapping pairs, and cost of an image.

taskset -c 0 python benchmarks/retrieval.py --photos=photos --sizes=50,500,2000 --clock=cpu
python benchmarks/retrieval.py --folder=lund --max_keypoints=2000

Half of a made-up collection of --photos are five views each of photographs, by known homographies
and with other light, half are single views of others; photographs that are seen in a mirror count
as others. All pairs of the longest shortlist are matched, and COLMAP's database is written. A first
collection, which is not reported, loads what is loaded once.

- recall: of the pairs each image of which shows 40 % of the other; in --folder, of those with
  --inliers.
- ms: of an image. write: COLMAP's database and the report; whole: all but the page, whose time does
  not grow.
"""

import contextlib
import pathlib
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.appearance import PRESETS
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.catalogue import DEFAULT_DETECTOR
from doap_tf.drawing.tables import Table
from doap_tf.errors import InputError
from doap_tf.features.frames import transform_points
from doap_tf.matching import (
    DescriptorExtractor,
    NearestNeighbours,
    Pipeline,
    Verifier,
    all_settings,
    exhaustive_pairs,
    find_images,
    shortlist,
)
from doap_tf.matching.collection_page import write_collection_page
from doap_tf.matching.colmap_database import write_colmap
from doap_tf.matching.pipeline import collection_report

FLAGS = flags.FLAGS
flags.DEFINE_string("photos", None, "Folder of photographs to make collections of.")
flags.DEFINE_list(
    "sizes", ["50", "200", "1000", "2000"], "Numbers of images of the made-up collections."
)
flags.DEFINE_string("folder", None, "A real collection, which is matched exhaustively.")
flags.DEFINE_list("models", ["doap-128", "doap-mobile-256b"], "What describes the images.")
flags.DEFINE_list("neighbours", ["5", "10", "20"], "Neighbours; times are those of the last.")
flags.DEFINE_integer("max_keypoints", 500, "Keypoints of an image.")
flags.DEFINE_string("detector", DEFAULT_DETECTOR, "What detects the keypoints.")
flags.DEFINE_integer("seed", 0, "Of the made-up collections.")
flags.DEFINE_integer("inliers", 100, "Inliers of a pair of the real collection that overlaps.")

_VIEWS = 5  # of one photograph; half of a collection are single views of others
_WIDTH, _HEIGHT = 240, 180
_FIRST = 20  # images of the collection that is not reported
_OVERLAP = 0.4  # of the smaller share of a view that the other shows


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "opencv-contrib-python-headless")
    if not (FLAGS.photos or FLAGS.folder):
        raise InputError("give --photos or --folder.")
    for model in FLAGS.models:
        if FLAGS.folder:
            images = find_images(FLAGS.folder)
            row = _measure(model, images, None)
            print(Table({f"{len(images)} images": row}, model).markdown() + "\n", flush=True)
        if FLAGS.photos:
            _measure_made_up(model, _FIRST)
            rows = {}
            for size in FLAGS.sizes:
                rows[f"{size} images"] = _measure_made_up(model, int(size))
                print(Table(rows, model).markdown() + "\n", flush=True)


def _measure_made_up(model: str, size: int) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        overlapping = make_collection(find_images(FLAGS.photos), size, folder)
        return _measure(model, find_images(folder), overlapping)


def _measure(
    model: str,
    images: dict[str, pathlib.Path],
    overlapping: set[frozenset[str]] | None,
) -> dict[str, str]:
    """A row of the table; without known overlaps those that exhaustive matching finds."""
    extractor = DescriptorExtractor(model, FLAGS.detector, max_keypoints=FLAGS.max_keypoints)
    # As match_main.py --format=colmap has them.
    steps = extractor, NearestNeighbours("mutual_ratio", 0.9), Verifier(threshold=0.9)
    names = list(images)
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(step: str) -> Iterator[None]:
        start = measuring.clock()
        yield
        seconds[step] = measuring.clock() - start

    with (
        tempfile.TemporaryDirectory() as folder,
        Pipeline(folder, *steps) as pipeline,
    ):
        store = pipeline.store
        with timed("describe"):
            pipeline.extract(images)
        with timed("codebook"):
            codebook = shortlist.learn_codebook(names, store.read_features)
        with timed("signature"):
            signatures = shortlist.make_signatures(names, store.read_features, codebook)
        lists = {}
        for neighbours in map(int, FLAGS.neighbours):
            with timed("search"):
                lists[neighbours] = shortlist.nearest_pairs(names, signatures, neighbours)
        pairs = exhaustive_pairs(names) if overlapping is None else lists[neighbours]
        with timed("match"):
            outcome = pipeline.run(images, pairs)
        with timed("write"):
            write_colmap(store, names, pairs, pathlib.Path(folder, "database.db"))
            report = collection_report(store, outcome, all_settings(*steps))
        with timed("page"):
            page = pathlib.Path(folder, "index.html")
            write_collection_page(page, store, images, report)
        if overlapping is None:
            overlapping = {
                frozenset((pair["image1"], pair["image2"]))
                for pair in report["pairs"]
                if pair["inliers"] >= FLAGS.inliers
            }
        found = [pair for pair in report["pairs"] if pair["reliable"]]
    seconds["whole"] = sum(seconds.values()) - seconds["page"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "overlapping": f"{len(overlapping):,}",
        **{
            f"recall at {neighbours}": f"{_recall(shortlisted, overlapping):.3f}"
            for neighbours, shortlisted in lists.items()
        },
        "pairs": f"{len(pairs):,}",
        "reliable": f"{len(found):,}",
        **{f"{step}, ms": f"{1e3 * value / len(names):.1f}" for step, value in seconds.items()},
        "peak so far, MB": f"{peak:.0f}",
    }


def _recall(pairs: list[tuple[str, str]], overlapping: set[frozenset[str]]) -> float:
    return sum(frozenset(pair) in overlapping for pair in pairs) / max(1, len(overlapping))


def make_collection(photos: dict[str, pathlib.Path], size: int, folder: str) -> set[frozenset[str]]:
    """Writes views of photographs, and returns the pairs that show enough of the same."""
    random = np.random.default_rng(FLAGS.seed)
    groups = size // (2 * _VIEWS)
    counts = [_VIEWS] * groups + [1] * (size - groups * _VIEWS)
    if len(counts) > 2 * len(photos):
        raise InputError(f"{size} images need {-(-len(counts) // 2)} photographs.")
    shuffled = random.permutation(list(photos.values()))
    overlapping = set()
    for number, count in enumerate(counts):
        photo = cv2.imread(str(shuffled[number % len(shuffled)]), cv2.IMREAD_GRAYSCALE)
        if number >= len(shuffled):
            photo = photo[:, ::-1]
        views: dict[str, np.ndarray] = {}
        for view in range(count):
            homography = _random_view(photo.shape, random)
            image = cv2.warpPerspective(
                photo, homography, (_WIDTH, _HEIGHT), borderMode=cv2.BORDER_REFLECT
            )
            name = f"{number:04d}-{view}.png"
            cv2.imwrite(
                str(pathlib.Path(folder) / name),
                change_appearance(image, PRESETS["camera"], random),
            )
            overlapping |= {
                frozenset((name, other))
                for other, theirs in views.items()
                if _overlap(homography, theirs) >= _OVERLAP
            }
            views[name] = homography
    return overlapping


def _random_view(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """A homography [3, 3] of a photograph's pixels to those of a view."""
    scale = 2 ** random.uniform(-0.4, 0.4)
    angle = random.uniform(-0.5, 0.5)
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    centre = np.array(shape[1::-1]) * random.uniform(0.35, 0.65, 2)
    homography = np.eye(3)
    homography[:2, :2] = turn
    homography[:2, 2] = np.array([_WIDTH, _HEIGHT]) / 2 - turn @ centre
    tilt = np.eye(3)
    tilt[2, :2] = random.normal(0, 3e-4, 2)
    return tilt @ homography


def _overlap(first: np.ndarray, second: np.ndarray) -> float:
    grid = np.stack(np.meshgrid(np.arange(0, _WIDTH, 8), np.arange(0, _HEIGHT, 8)), axis=-1)
    points = grid.reshape(-1, 2).astype(float)
    shares = []
    for one, other in ((first, second), (second, first)):
        there = transform_points(points, other @ np.linalg.inv(one))
        inside = (there >= 0).all(axis=1) & (there < [_WIDTH, _HEIGHT]).all(axis=1)
        shares.append(inside.mean())
    return min(shares)


if __name__ == "__main__":
    command_line.run(main)
