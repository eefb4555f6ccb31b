"""Matches image pairs on the keypoints of a network trained by keypoints.py, and on DoG's.

python experiments/keypoint_pairs.py --weights=FOLDER/keypoints.weights.h5 --data=DATA

DATA holds oxford/ and hpatches_images/. Every image keeps its 4,000 strongest keypoints; mutual
nearest neighbours match, and a match is right within 3 pixels of the true homography. "repeated" is
the share of keypoints with one in the other image within 3 pixels.
"""

import pathlib
import sys
import time
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import keypoints
import numpy as np
import tensorflow as tf
from absl import flags
from scipy.spatial import KDTree

from doap_tf import command_line
from doap_tf.features.detectors import Detections
from doap_tf.features.frames import similarity_frames, transform_points
from doap_tf.features.orientation import orient
from doap_tf.matching import DescriptorExtractor, Matcher
from doap_tf.readers.image_sequences import read_image_sequence

PAIRS = (
    ("oxford/graf", 3),
    ("oxford/boat", 4),
    ("oxford/bikes", 5),
    ("oxford/leuven", 5),
    ("hpatches_images/v_wormhole", 4),
    ("hpatches_images/v_birdwoman", 4),
)
TOLERANCE = 3.0
_STEP = 2**0.5  # between the levels of the pyramid
_LEVELS = 7
_BORDER = 16  # pixels by which an image is mirrored at its sides
_RADIUS = 2  # of non-maximum suppression, in pixels of the level

flags.DEFINE_string("weights", None, "Of the network.", required=True)
flags.DEFINE_string("data", None, "Folder of oxford/ and hpatches_images/.", required=True)
flags.DEFINE_list("models", ["doap-128", "doap-mobile-256b"], "Descriptors.")
flags.DEFINE_integer("max_keypoints", 4000, "Of the strongest keypoints to keep.")


class LearnedDetector:
    """Finds the maxima of a network's scores over an image pyramid.

    Args:
        weights: File of the network's weights.
        max_keypoints: Number of the strongest to keep.
        oriented: Whether keypoints are turned to the dominant gradient.
    """

    def __init__(self, weights: str, max_keypoints: int, oriented: bool = True):
        network = keypoints.KeypointNetwork()
        network(tf.zeros([1, 64, 64, 1]))
        network.load_weights(weights)
        self._scores = tf.function(
            network, input_signature=[tf.TensorSpec([1, None, None, 1], tf.float32)]
        )
        self._max_keypoints = max_keypoints
        self._oriented = oriented

    def detect(self, image: np.ndarray, mask: np.ndarray | None = None) -> Detections:
        """Finds keypoints, the strongest first."""
        found = np.concatenate([*self._levels(image)])
        found = found[np.argsort(-found[:, 3], kind="stable")]
        found = found[_not_beside_stronger(found)][: self._max_keypoints]
        if mask is not None:
            found = found[[bool(mask[int(y + 0.5), int(x + 0.5)]) for x, y, *_ in found]]
        x, y, scale, score = found.T
        frames = similarity_frames(x, y, keypoints.RADIUS * scale, np.zeros(len(found)))
        if self._oriented:
            frames = orient(image, frames)
        return Detections(frames, score.astype(np.float32))

    def _levels(self, image: np.ndarray):
        height, width = image.shape
        for level in range(_LEVELS):
            size = round(width / _STEP**level), round(height / _STEP**level)
            if min(size) < 2 * _BORDER:
                break
            smaller = cv2.resize(image, size, interpolation=cv2.INTER_AREA) if level else image
            x, y, score = _peaks(self._score_map(smaller))
            yield np.stack(
                [
                    (x + 0.5) * width / size[0] - 0.5,
                    (y + 0.5) * height / size[1] - 0.5,
                    np.full(len(x), _STEP**level),
                    score,
                ],
                axis=1,
            )

    def _score_map(self, image: np.ndarray) -> np.ndarray:
        height, width = image.shape
        sides = _BORDER, _BORDER + height % 2, _BORDER, _BORDER + width % 2
        padded = cv2.copyMakeBorder(image, *sides, cv2.BORDER_REFLECT_101).astype(np.float32)
        scores = self._scores(padded[np.newaxis, ..., np.newaxis]).numpy()[0, ..., 0]
        return scores[_BORDER : _BORDER + height, _BORDER : _BORDER + width]


def _peaks(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns x, y and scores of the maxima, refined by a paraboloid."""
    side = 2 * _RADIUS + 1
    peak = scores == cv2.dilate(scores, np.ones((side, side), np.uint8))
    inside = np.zeros_like(peak)
    inside[4:-4, 4:-4] = True
    y, x = np.nonzero(peak & inside)
    here = scores[y, x]
    dx = (scores[y, x + 1] - scores[y, x - 1]) / 2
    dy = (scores[y + 1, x] - scores[y - 1, x]) / 2
    xx = scores[y, x + 1] + scores[y, x - 1] - 2 * here
    yy = scores[y + 1, x] + scores[y - 1, x] - 2 * here
    xy = (
        scores[y + 1, x + 1] - scores[y + 1, x - 1] - scores[y - 1, x + 1] + scores[y - 1, x - 1]
    ) / 4
    determinant = xx * yy - xy**2
    determinant = np.where(np.abs(determinant) < 1e-6, 1, determinant)
    right = np.clip((xy * dy - yy * dx) / determinant, -0.5, 0.5)
    down = np.clip((xy * dx - xx * dy) / determinant, -0.5, 0.5)
    return x + right, y + down, here


def _not_beside_stronger(found: np.ndarray) -> np.ndarray:
    """Which keypoints, ordered by strength, have no stronger one in place at the next levels."""
    level = np.rint(np.log(found[:, 2]) / np.log(_STEP)).astype(int)
    keep = np.ones(len(found), bool)
    trees = {
        number: (np.flatnonzero(level == number), KDTree(found[level == number, :2]))
        for number in np.unique(level)
    }
    for number, (rows, _) in trees.items():
        for other in {number - 1, number + 1} & trees.keys():
            other_rows, tree = trees[other]
            reach = 0.75 * _RADIUS * _STEP ** max(number, other)
            for row, near in zip(rows, tree.query_ball_point(found[rows, :2], reach), strict=True):
                keep[row] &= not near or other_rows[min(near)] > row
    return keep


def main(argv: Sequence[str]) -> None:
    del argv
    values = flags.FLAGS
    detectors = {
        "DoG": "dog",
        "learned": LearnedDetector(values.weights, values.max_keypoints),
        "learned, upright": LearnedDetector(values.weights, values.max_keypoints, False),
    }
    print("| keypoints | descriptor | right | share | repeated | right by pair | s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, detector in detectors.items():
        for model in ["rootsift", *values.models] if name == "DoG" else values.models:
            start = time.monotonic()
            extractor = DescriptorExtractor(model, detector, values.max_keypoints)
            right, matches, repeated = zip(
                *(
                    _match(extractor, pathlib.Path(values.data) / pair[0], pair[1])
                    for pair in PAIRS
                ),
                strict=True,
            )
            print(
                f"| {name} | {model} | {sum(right):,} | {sum(right) / sum(matches):.3f} "
                f"| {np.mean(repeated):.2f} | {', '.join(map(str, right))} "
                f"| {time.monotonic() - start:.0f} |",
                flush=True,
            )


def _match(
    extractor: DescriptorExtractor, folder: pathlib.Path, target: int
) -> tuple[int, int, float]:
    """Returns the numbers of right matches and of matches, and the share of repeated keypoints."""
    sequence = read_image_sequence(folder)
    homography = sequence.homographies[target - 2]
    one, two = (extractor.extract(sequence.images[index]) for index in (0, target - 1))
    pair = Matcher(method="mutual", geometry=None).match(one, two)
    there = transform_points(one.frames[..., 2], homography)
    places = two.frames[..., 2]
    errors = np.linalg.norm(there[pair.indices[:, 0]] - places[pair.indices[:, 1]], axis=1)
    visible = np.all((there >= 0) & (there <= np.array(two.image_size) - 1), axis=1)
    repeated = KDTree(places).query(there[visible])[0] < TOLERANCE
    return int((errors < TOLERANCE).sum()), len(errors), float(repeated.mean())


if __name__ == "__main__":
    command_line.run(main)
