"""Measures how far detected keypoints are from where the true homography puts them.

python experiments/detection_errors.py --source=DATA/photos

Pairs of views are those that keypoints are trained on. A keypoint counts as found again if the
other view has one within a radius of its place and within half an octave of its scale.
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Folder or glob of photographs.", required=True)
flags.DEFINE_list("detectors", ["learned", "dog"], "Detectors to compare.")
flags.DEFINE_integer("pairs", 240, "Number of pairs of views.")
flags.DEFINE_integer("max_keypoints", 500, "Maximum number of keypoints per view.")
flags.DEFINE_integer("photographs", 100, "Number of photographs, evenly spread.")

_SIZE = 320
_OCTAVES = 0.5
_SAME_ANGLE = 30.0  # degrees; beyond, another peak of the gradients has won


def main(argv: Sequence[str]) -> None:
    del argv
    import numpy as np

    from doap_tf.drawing.tables import Table
    from doap_tf.features import detect
    from doap_tf.patch_generation.scenes import find_scenes
    from doap_tf.patch_generation.view_pairs import ViewPairs
    from doap_tf.progress import progress

    scenes = find_scenes(FLAGS.source, "photos")
    views = ViewPairs(scenes[:: max(len(scenes) // FLAGS.photographs, 1)], _SIZE, seed=1)
    rows = {}
    for detector in FLAGS.detectors:
        visible, found = 0, []
        for number in progress(range(FLAGS.pairs), detector, unit="pair"):
            pair = views.batch(number, 1)
            first, second = (
                detect(view[0], detector, FLAGS.max_keypoints).frames
                for view in (pair.first, pair.second)
            )
            count, errors = _errors(first, second, pair.homography[0].astype(float))
            visible += count
            found.append(errors)
        x, y, scale, angle = np.concatenate(found).T
        angle = np.degrees(angle)
        near = np.abs(angle) < _SAME_ANGLE
        rows[detector] = {
            "found again": len(x) / visible,
            "place, σ": np.sqrt((x.var() + y.var()) / 2),
            "place, median": np.median(np.hypot(x, y)),
            "octaves, σ": scale.std(),
            "degrees, σ": angle[near].std(),
            f"over {_SAME_ANGLE:g}°": 1 - near.mean(),
        }
    print(Table(rows, "detector", "{:.3f}".format).text())


def _errors(first, second, homography):
    """The number of keypoints that both views show, and errors [n, 4] of those found again.

    Errors are x and y in radii, octaves, and radians.
    """
    import numpy as np

    from doap_tf.features.frames import angles, radii, transform_frames

    expected = transform_frames(first, homography)
    expected = expected[((expected[..., 2] >= 0) & (expected[..., 2] <= _SIZE - 1)).all(axis=1)]
    if not len(second):
        return len(expected), np.zeros((0, 4))
    radius = radii(expected)
    place = (second[None, :, :, 2] - expected[:, None, :, 2]) / radius[:, None, None]
    octaves = np.log2(radii(second)[None] / radius[:, None])
    distance = np.hypot(*np.moveaxis(place, -1, 0))
    misfit = np.where(distance < 1, np.abs(octaves), np.inf)
    best = misfit.argmin(axis=1)
    rows = np.flatnonzero(misfit.min(axis=1) < _OCTAVES)
    best = best[rows]
    turned = angles(second)[best] - angles(expected)[rows]
    turned = (turned + np.pi) % (2 * np.pi) - np.pi
    return len(expected), np.column_stack([place[rows, best], octaves[rows, best], turned])


if __name__ == "__main__":
    command_line.run(main)
