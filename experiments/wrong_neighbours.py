"""Sorts a descriptor's wrong nearest neighbours by what is wrong, and draws the hardest of them.

python experiments/wrong_neighbours.py --groups=groups/hseq32 --models=doap-128 --output=wrong.png

Each reference patch looks for its own target among those of its sequence, as in matching. A sample
of the failures is sorted, in this order:

- little texture: the reference or its target has a standard deviation below 10 grey levels;
- alike: the references of the two places are as near as matches of the easy level are (95 %), so
  the structure repeats, or the two patches overlap;
- scale, angle, place: scaled, rotated or shifted, its own target becomes nearer than the wrong one
  under the same changes; the kind that brings it nearest counts;
- other: nothing of this, such as occlusion, light, or a viewpoint that no similarity describes.
"""

import collections
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import numpy as np
from absl import flags

from doap_tf import command_line, metrics
from doap_tf.data import PatchGroups
from doap_tf.descriptors import PatchDescriptor
from doap_tf.drawing.patches import tile
from doap_tf.drawing.pictures import write_picture
from doap_tf.drawing.tables import Table
from doap_tf.progress import progress
from doap_tf.training.validation import LEVELS
from doap_tf.zoo import load_descriptor

FLAGS = flags.FLAGS
flags.DEFINE_string("groups", None, "Folder of patch groups with HPatches' views.", required=True)
flags.DEFINE_list("models", ["doap-128"], "Names or paths of networks, or of baselines.")
flags.DEFINE_integer("sample", 600, "Number of wrong neighbours to sort.")
flags.DEFINE_string("output", None, "PNG file to write: the hardest of each kind, first model.")

_LITTLE_TEXTURE = 10.0  # grey levels
_SHOWN = 4  # examples of each kind
_KINDS = ("little texture", "alike", "scale", "angle", "place", "other")


class Failure(NamedTuple):
    """Rows of patches: a reference, its target, the target taken for it, and that one's reference.

    `excess` is how much farther its own target is than the wrong one.
    """

    excess: float
    reference: int
    target: int
    wrong: int
    wrong_reference: int


def main(argv: Sequence[str]) -> None:
    del argv
    groups = PatchGroups.load(FLAGS.groups)
    rows = {}
    for number, model in enumerate(FLAGS.models):
        descriptor = load_descriptor(model)
        failures, share, limit = find_failures(groups, descriptor)
        chosen = np.random.default_rng(0).permutation(len(failures))[: FLAGS.sample]
        sample = [failures[index] for index in chosen]
        kinds = [
            kind_of(failure, groups.patches, descriptor, limit)
            for failure in progress(sample, f"sorting failures of {model}", unit="neighbour")
        ]
        counts = collections.Counter(kinds)
        shares = {"wrong": share} | {kind: counts[kind] / len(kinds) for kind in _KINDS}
        rows[model] = {name: f"{value:.3f}" for name, value in shares.items()}
        if number == 0 and FLAGS.output:
            write_picture(pathlib.Path(FLAGS.output), _draw(groups.patches, sample, kinds))
    print(Table(rows, "descriptor").markdown())


def find_failures(
    groups: PatchGroups, descriptor: PatchDescriptor
) -> tuple[list[Failure], float, float]:
    """Returns all failures, their share, and a distance that 95 % of easy matches are within."""
    failures, queries, easy = [], 0, []
    for members in groups.groups_by_sequence.values():
        rows = np.array([groups.rows_of(group) for group in members])
        flat = descriptor.describe(groups.patches[rows.ravel()])
        described = flat.reshape(*rows.shape, -1)
        references = described[:, 0]
        for level, views in LEVELS.items():
            for view in views:
                targets = np.ascontiguousarray(described[:, view])
                own = metrics.paired_distances(references, targets, descriptor.norm)
                found, distances = metrics.nearest(references, targets, descriptor.norm)
                queries += len(rows)
                if level == "easy":
                    easy.append(own)
                failures += [
                    Failure(own[i] - distances[i, 0], *rows[i, [0, view]], *rows[j, [view, 0]])
                    for i, j in enumerate(found[:, 0])
                    if i != j
                ]
    return failures, len(failures) / queries, float(np.quantile(np.concatenate(easy), 0.95))


def kind_of(
    failure: Failure, patches: np.ndarray, descriptor: PatchDescriptor, limit: float
) -> str:
    """Returns what is wrong, one of `_KINDS`."""
    reference, target, wrong, wrong_reference = (patches[row] for row in failure[1:])
    if min(reference.std(), target.std()) < _LITTLE_TEXTURE:
        return "little texture"
    names, maps = zip(*_changes(patches.shape[1]), strict=True)
    changed = [_warp(patch, change) for patch in (target, wrong) for change in maps]
    rows = descriptor.describe(np.stack([reference, wrong_reference, *changed]))
    query = np.repeat(rows[:1], len(rows) - 1, axis=0)
    alike, *others = metrics.paired_distances(query, rows[1:], descriptor.norm)
    if alike <= limit:
        return "alike"
    own, taken = np.split(np.array(others), 2)
    mended = {}
    for kind in ("scale", "angle", "place"):
        allowed = [name in (kind, "none") for name in names]
        if own[allowed].min() < taken[allowed].min():
            mended[kind] = own[allowed].min()
    return min(mended, key=mended.__getitem__) if mended else "other"


def _changes(side: int) -> list[tuple[str, np.ndarray]]:
    """Similarities about the centre of a patch, by kind."""
    centre = (side - 1) / 2

    def about_centre(scale: float, degrees: float, x: float = 0, y: float = 0) -> np.ndarray:
        change = cv2.getRotationMatrix2D((centre, centre), degrees, scale)
        return change + np.array([[0, 0, x], [0, 0, y]])

    scales = [about_centre(2**octaves, 0) for octaves in (-0.5, -0.25, -0.125, 0.125, 0.25, 0.5)]
    angles = [about_centre(1, degrees) for degrees in (-45, -30, -20, -10, 10, 20, 30, 45)]
    steps = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
    places = [
        about_centre(1, 0, x * distance * side, y * distance * side)
        for distance in (1 / 16, 1 / 8)
        for x, y in steps
    ]
    return [
        ("none", about_centre(1, 0)),
        *(("scale", change) for change in scales),
        *(("angle", change) for change in angles),
        *(("place", change) for change in places),
    ]


def _warp(patch: np.ndarray, change: np.ndarray) -> np.ndarray:
    return cv2.warpAffine(patch, change, patch.shape[::-1], borderMode=cv2.BORDER_REPLICATE)


def _draw(patches: np.ndarray, failures: Sequence[Failure], kinds: Sequence[str]) -> np.ndarray:
    """A row of each kind: reference, target, wrong target, its reference, four times."""
    rows, labels = [], []
    for kind in _KINDS:
        of_kind = [f for f, found in zip(failures, kinds, strict=True) if found == kind]
        hardest = sorted(of_kind, key=lambda failure: -failure.excess)[:_SHOWN]
        if hardest:
            labels.append(f"{kind}, {len(of_kind)}")
            rows.append(np.concatenate([patches[list(failure[1:])] for failure in hardest]))
    return tile(rows, labels, zoom=2)


if __name__ == "__main__":
    command_line.run(main)
