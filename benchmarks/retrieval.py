"""Measures the shortlist of --pairs=retrieval: recall of overlapping pairs, and seconds an image.

python benchmarks/retrieval.py --photos=photos --sizes=50,200,1000
python benchmarks/retrieval.py --folder=lund --max_keypoints=2000
"""

import pathlib
import resource
import sys
import tempfile
from collections.abc import Sequence

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.appearance import PRESETS
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.drawing.tables import Table
from doap_tf.errors import InputError
from doap_tf.features.frames import transform_points
from doap_tf.matching import (
    DescriptorExtractor,
    NearestNeighbours,
    Pipeline,
    Verifier,
    exhaustive_pairs,
    find_images,
    shortlist,
)

FLAGS = flags.FLAGS
flags.DEFINE_string("photos", None, "Folder of photographs to make collections of.")
flags.DEFINE_list("sizes", ["50", "200", "1000"], "Numbers of images of the made-up collections.")
flags.DEFINE_string("folder", None, "A real collection, which is matched exhaustively.")
flags.DEFINE_list("models", ["doap-128", "doap-mobile-256b"], "What describes the images.")
flags.DEFINE_list("neighbours", ["5", "10", "20"], "Neighbours; times are those of the last.")
flags.DEFINE_integer("max_keypoints", 500, "Keypoints of an image.")
flags.DEFINE_string("detector", "learned", "What detects the keypoints.")
flags.DEFINE_integer("inliers", 100, "Inliers of a pair of the real collection that overlaps.")

_VIEWS = 5  # of one photograph; half of a collection are single views of others
_WIDTH, _HEIGHT = 240, 180
_TIMED_PAIRS = 300
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
            rows = {}
            for size in map(int, FLAGS.sizes):
                with tempfile.TemporaryDirectory() as folder:
                    overlapping = make_collection(find_images(FLAGS.photos), size, folder)
                    rows[f"{size} images"] = _measure(model, find_images(folder), overlapping)
            print(Table(rows, model).markdown() + "\n", flush=True)


def _measure(
    model: str,
    images: dict[str, pathlib.Path],
    overlapping: set[frozenset[str]] | None,
) -> dict[str, str]:
    """A row of the table; without known overlaps those that exhaustive matching finds."""
    extractor = DescriptorExtractor(model, FLAGS.detector, max_keypoints=FLAGS.max_keypoints)
    steps = extractor, NearestNeighbours(), Verifier("fundamental")
    names = list(images)
    seconds = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Pipeline(folder, *steps) as pipeline,
    ):
        store = pipeline.store
        start = measuring.clock()
        pipeline.extract(images)
        seconds["describe"] = measuring.clock() - start
        of_a_pair = None
        if overlapping is None:
            everything = exhaustive_pairs(names)
            start = measuring.clock()
            outcome = pipeline.run(images, everything)
            of_a_pair = (measuring.clock() - start) / len(everything)
            overlapping = {
                frozenset(pair)
                for pair in outcome.pairs
                if store.read_pair(*pair).inliers.sum() >= FLAGS.inliers
            }
        start = measuring.clock()
        codebook = shortlist.learn_codebook(names, store.read_features)
        seconds["codebook"] = measuring.clock() - start
        start = measuring.clock()
        signatures = shortlist.make_signatures(names, store.read_features, codebook)
        seconds["signature"] = measuring.clock() - start
        recalls = {}
        for neighbours in map(int, FLAGS.neighbours):
            start = measuring.clock()
            pairs = shortlist.nearest_pairs(names, signatures, neighbours)
            seconds["search"] = measuring.clock() - start
            found = sum(frozenset(pair) in overlapping for pair in pairs)
            recalls[f"recall at {neighbours}"] = f"{found / max(1, len(overlapping)):.3f}"
            recalls[f"pairs at {neighbours}"] = f"{len(pairs):,}"
        if of_a_pair is None:
            sample = pairs[:: -(-len(pairs) // _TIMED_PAIRS)]
            start = measuring.clock()
            pipeline.match(sample)
            of_a_pair = (measuring.clock() - start) / len(sample)
        seconds["match"] = of_a_pair * len(pairs)
    seconds["whole"] = sum(seconds.values())
    each = {f"{step}, ms": f"{1e3 * value / len(names):.1f}" for step, value in seconds.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "overlapping": f"{len(overlapping):,}",
        **recalls,
        **each,
        "match, ms a pair": f"{1e3 * of_a_pair:.1f}",
        "peak so far, MB": f"{peak:.0f}",
    }


def make_collection(photos: dict[str, pathlib.Path], size: int, folder: str) -> set[frozenset[str]]:
    """Writes views of photographs, and returns the pairs that show enough of the same."""
    random = np.random.default_rng(0)
    groups = size // (2 * _VIEWS)
    counts = [_VIEWS] * groups + [1] * (size - groups * _VIEWS)
    if len(counts) > len(photos):
        raise InputError(f"{size} images need {len(counts)} photographs, not {len(photos)}.")
    chosen = random.permutation(list(photos.values()))[: len(counts)]
    overlapping = set()
    for number, (path, count) in enumerate(zip(chosen, counts, strict=True)):
        photo = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
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
