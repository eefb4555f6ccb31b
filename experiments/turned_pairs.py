"""Compares ways of turning the images of a pair towards each other.

python experiments/turned_pairs.py --model=doap-fast-128 --data_dir=hpatches_images
python experiments/turned_pairs.py --model=doap-fast-128 --data_dir=hpatches_images --angles=35,180

- dominant gradient: every patch is turned by itself; networks of patches only.
- upright: no image is turned.
- auto: as match_images does, whose --rotations are automatic.

With --angles the second image of a pair is turned first, by one angle after another. Right matches
lie within 3 pixels of the true homography and are counted at distinct places; AUC is that of the
corner errors. In brackets: 95 % intervals of the difference from the first row on the same pairs.
"""

import itertools
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags

from doap_tf import command_line
from doap_tf.drawing.tables import Table
from doap_tf.progress import progress

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "doap-fast-128", "A network of patches or of whole images.")
flags.DEFINE_string("data_dir", None, "Folder of image sequences.", required=True)
flags.DEFINE_list("angles", ["0"], "Degrees by which second images are turned to the right.")
flags.DEFINE_integer("max_keypoints", 2048, "Maximum number of keypoints per image.")

_RIGHT = 3.0  # pixels
_LIMITS = (3, 5)


def main(argv: Sequence[str]) -> None:
    del argv
    import doap_tf
    from doap_tf.matching import DenseExtractor, DescriptorExtractor

    upright = DescriptorExtractor(FLAGS.model, max_keypoints=FLAGS.max_keypoints, oriented=False)
    ways: dict[str, tuple[Any, str]] = {"upright": (upright, "none"), "auto": (upright, "auto")}
    if not isinstance(upright, DenseExtractor):
        ways = {"dominant gradient": (upright.following(), "none"), **ways}
    scores: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
    for images, homography in progress(list(_pairs()), "matching", unit="pair"):
        for way, (extractor, rotations) in ways.items():
            pair = doap_tf.match_images(
                *images, extractor, geometry="homography", rotations=rotations
            )
            scores[way].append(_score(pair, homography, images[0].shape[1::-1]))
    print(_table({way: np.array(rows) for way, rows in scores.items()}).markdown())


def _pairs() -> Iterator[tuple[tuple[np.ndarray, np.ndarray], np.ndarray]]:
    """First and second images with the homographies between them."""
    import cv2

    from doap_tf.readers.image_sequences import list_image_sequences, read_image_sequence

    angles = itertools.cycle(map(float, FLAGS.angles))
    for folder in list_image_sequences(FLAGS.data_dir):
        sequence = read_image_sequence(folder)
        first, *others = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in sequence.images)
        for second, homography in zip(others, sequence.homographies, strict=True):
            turn = cv2.getRotationMatrix2D((0, 0), -next(angles), 1)
            height, width = second.shape
            corners = [[0, 0], [width, 0], [0, height], [width, height]] @ turn[:, :2].T
            turn[:, 2] -= corners.min(axis=0)
            size = np.ceil(np.ptp(corners, axis=0)).astype(int)
            yield (
                (first, cv2.warpAffine(second, turn, size)),
                np.vstack([turn, [0, 0, 1]]) @ homography,
            )


def _score(pair: Any, homography: np.ndarray, size: tuple[int, int]) -> tuple[float, ...]:
    from doap_tf.evaluation.two_view_scores import corner_error, distinct_places
    from doap_tf.features.frames import transform_points

    distances = transform_points(pair.points1, homography) - pair.points2
    right = np.linalg.norm(distances, axis=1) <= _RIGHT
    places = distinct_places(pair.points1[right])
    return places, right.mean() if len(right) else 0.0, corner_error(pair.model, homography, size)


def _table(scores: dict[str, np.ndarray]) -> Table:
    from doap_tf.evaluation.two_view_scores import area_under_curve, bootstrap_interval

    def columns(rows: np.ndarray) -> np.ndarray:
        areas = [area_under_curve(rows[:, 2], limit) for limit in _LIMITS]
        return np.array([rows[:, 0].mean(), *(100 * np.array([rows[:, 1].mean(), *areas]))])

    names = ["right", "share", *(f"AUC {limit} px" for limit in _LIMITS)]
    (first, base), *_ = scores.items()
    table: dict[str, dict[str, str]] = {}
    for way, rows in scores.items():
        low, high = bootstrap_interval(
            lambda drawn, rows=rows: columns(rows[drawn]) - columns(base[drawn]), len(rows)
        )
        difference = "" if way == first else " ({:+.1f} to {:+.1f})"
        table[way] = {
            name: f"{value:.1f}" + difference.format(low[i], high[i])
            for i, (name, value) in enumerate(zip(names, columns(rows), strict=True))
        }
    return Table(table, "patches")


if __name__ == "__main__":
    command_line.run(main)
