"""Compares descriptors on real detections of image pairs, the homographies being known.

python benchmarks/match_pairs.py --data=oxford --models=rootsift,doap-128 --magnifications=8,10,12
python benchmarks/match_pairs.py --data=hpatches_images --pairs=v_wormhole/4,v_birdwoman/4

Every model describes the same DoG keypoints; mutual nearest neighbours match. A match is right if
the true homography brings its first point within --tolerance pixels of its second.
"""

import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from doap_tf import commands, files
from doap_tf.errors import InputError
from doap_tf.features.detectors import detect
from doap_tf.features.frames import transform_points
from doap_tf.matching import DescriptorExtractor, Matcher, PairMatches, as_grey, draw_matches
from doap_tf.readers.image_sequences import read_image_sequence

FLAGS = flags.FLAGS
_PAIRS = ["graf/2", "graf/3", "boat/4", "leuven/5", "bikes/5"]
_OWN = ("sift", "rootsift")  # OpenCV's, which have no magnification to choose

flags.DEFINE_string("data", None, "Folder of image sequences.", required=True)
flags.DEFINE_list("pairs", _PAIRS, "Sequence and number of the image matched with its first.")
flags.DEFINE_list("models", ["sift", "rootsift"], "Names or paths, as for match_main.py.")
flags.DEFINE_list("magnifications", [], "Try these on every model; by default each one's own.")
flags.DEFINE_float("tolerance", 3.0, "Pixels within which a match is right, or an inlier.")
flags.DEFINE_integer("max_keypoints", 0, "Keep so many of the strongest keypoints; 0 for all.")
flags.DEFINE_string("pictures", None, "Folder to draw the matches to.")


class Case(NamedTuple):
    """Two images, uint8 BGR or grey, and the homography from the first to the second."""

    name: str
    image1: np.ndarray
    image2: np.ndarray
    homography: np.ndarray


def main(argv: Sequence[str]) -> None:
    del argv
    extractors = dict(_extractors())
    matcher = Matcher(method="mutual", geometry="homography", threshold=FLAGS.tolerance)
    width = max(map(len, extractors))
    print(f"{'pair':<12} {'model':<{width}} matches inliers   right   share  corner error")
    shares: dict[str, list[float]] = {name: [] for name in extractors}
    rights: dict[str, int] = dict.fromkeys(extractors, 0)
    for case in _cases():
        frames = [
            detect(as_grey(image), "dog", FLAGS.max_keypoints or None).frames
            for image in (case.image1, case.image2)
        ]
        for name, extractor in extractors.items():
            pair = matcher.match(
                extractor.describe(case.image1, frames[0]),
                extractor.describe(case.image2, frames[1]),
            )
            right = _right(pair, case.homography).sum()
            shares[name].append(right / max(len(pair.indices), 1))
            rights[name] += right
            print(
                f"{case.name:<12} {name:<{width}} {len(pair.indices):>7} {pair.inliers.sum():>7} "
                f"{right:>7} {shares[name][-1]:>7.3f} {_corner_error(pair, case):>10.2f} px",
                flush=True,
            )
            if FLAGS.pictures:
                _draw(case, name, pair)
    for name, values in shares.items():
        print(f"{'mean':<12} {name:<{width}} {rights[name]:>23} {np.mean(values):>7.3f}")


def _extractors() -> Iterator[tuple[str, DescriptorExtractor]]:
    try:
        magnifications = [float(value) for value in FLAGS.magnifications]
    except ValueError as error:
        raise InputError(f"--magnifications must be numbers: {error}.") from error
    for model in FLAGS.models:
        name = pathlib.PurePath(model).name
        if model in _OWN or not magnifications:
            yield name, DescriptorExtractor(model)
            continue
        for magnification in magnifications:
            extractor = DescriptorExtractor(model, magnification=magnification)
            yield f"{name} at {magnification:g}", extractor


def _cases() -> Iterator[Case]:
    for place in FLAGS.pairs:
        name, _, number = place.rpartition("/")
        if number not in ("2", "3", "4", "5", "6"):
            raise InputError(
                f"--pairs must be like graf/3, with a number from 2 to 6, not {place!r}."
            )
        number = int(number)
        sequence = read_image_sequence(pathlib.Path(FLAGS.data) / name)
        image1, image2 = (
            np.ascontiguousarray(sequence.images[image][..., ::-1]) for image in (0, number - 1)
        )
        yield Case(f"{name} 1–{number}", image1, image2, sequence.homographies[number - 2])


def _right(pair: PairMatches, homography: np.ndarray) -> np.ndarray:
    distances = np.linalg.norm(transform_points(pair.points1, homography) - pair.points2, axis=1)
    return distances <= FLAGS.tolerance


def _corner_error(pair: PairMatches, case: Case) -> float:
    """Mean distance of the first image's corners under the two homographies."""
    if pair.model is None:
        return np.inf
    height, width = case.image1.shape[:2]
    corners = np.array([(0, 0), (width - 1, 0), (width - 1, height - 1), (0, height - 1)], float)
    difference = transform_points(corners, pair.model) - transform_points(corners, case.homography)
    return float(np.nan_to_num(np.linalg.norm(difference, axis=1), nan=np.inf).mean())


def _draw(case: Case, model: str, pair: PairMatches) -> None:
    name = f"{case.name} {model}".replace(" ", "_").replace("–", "-")
    picture = draw_matches(case.image1, case.image2, pair, f"{case.name} · {model}")
    with files.write_atomically(pathlib.Path(FLAGS.pictures) / f"{name}.png") as path:
        cv2.imwrite(str(path), picture)


if __name__ == "__main__":
    commands.run(main)
