"""Measures whether the groups that are cut from a reconstruction show one place each.

python experiments/colmap_groups.py --source=FOLDER

FOLDER holds images/, sparse/0/ and COLMAP's database.db, whose keypoints have the scales and angles
that a model lacks.
"""

import itertools
import pathlib
import sqlite3
import sys
import tempfile
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags

from doap_tf import command_line
from doap_tf.errors import InputError

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Folder with a reconstruction.", required=True)

_SIZE = 16
_CONTRAST = 5.0  # standard deviation in grey levels below which patches correlate less


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.drawing.tables import Table
    from doap_tf.features.frames import angles, radii
    from doap_tf.patch_generation.colmap_groups import PLACES, PointSettings, cut_views, find_views
    from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION
    from doap_tf.readers.colmap_model import find_model, read_model

    model = read_model(*find_model(FLAGS.source))
    detected = _read_keypoints(pathlib.Path(FLAGS.source) / "database.db")
    rows: dict[str, dict[str, float]] = {}
    for place in PLACES:
        settings = PointSettings(_SIZE, HPATCHES_MAGNIFICATION, place)
        views = find_views(model, settings)
        with tempfile.TemporaryDirectory() as scratch:
            groups = list(cut_views(model, views, settings, pathlib.Path(scratch)))
        likeness = np.concatenate([_correlations(group.patches) for group in groups])
        radius, angle = radii(views.frames), angles(views.frames)
        keypoints = np.array(
            [
                detected[model.images[image].name][_keypoint(model.images[image], model.ids[point])]
                for point, image in zip(views.point, views.image, strict=True)
            ]
        )
        linear = keypoints[:, 2:].reshape(-1, 2, 2)
        turn = angle - angles(linear)
        turn -= turn[views.references][views.group]
        turn = np.degrees(np.abs(np.angle(np.exp(1j * turn))))
        others = np.setdiff1d(np.arange(len(radius)), views.references)
        ratio = radius / np.sqrt(np.abs(np.linalg.det(linear)))
        off = _leave_one_out(model, views)
        measures = {
            "groups": len(groups),
            "patches": sum(len(group.patches) for group in groups),
            "correlation with the reference < .4": (likeness < 0.4).mean(),
            "correlation with the reference < .2": (likeness < 0.2).mean(),
            "over 5 px from the other views' point": (off > 5).mean(),
            "over 5 radii from the other views' point": (off > 5 * radius).mean(),
            "radius over COLMAP's, median": np.median(ratio),
            "radius over COLMAP's, 5 %": np.percentile(ratio, 5),
            "radius over COLMAP's, 95 %": np.percentile(ratio, 95),
            "degrees from COLMAP's turn, median": np.median(turn[others]),
            "degrees from COLMAP's turn, 95 %": np.percentile(turn[others], 95),
        }
        for name, value in measures.items():
            rows.setdefault(name, {})[place] = value
    print(Table(rows, "", "{:.4g}".format).text())


def _read_keypoints(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the keypoints [n, 6] of images by name: x, y and COLMAP's affine shape."""
    if not path.is_file():
        raise InputError(f"{path} does not exist; put COLMAP's database there")
    query = "select name, cols, data from images join keypoints using (image_id)"
    with sqlite3.connect(path) as database:
        return {
            name: np.frombuffer(data, np.float32).reshape(-1, columns)
            for name, columns, data in database.execute(query)
        }


def _keypoint(image, point: int) -> int:
    return int(np.flatnonzero(image.points == point)[0])


def _correlations(patches: np.ndarray) -> np.ndarray:
    """Of patches [n, S, S] with the first; those of little contrast correlate less."""
    vectors = patches.reshape(len(patches), -1).astype(np.float64)
    vectors -= vectors.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(norms, _CONTRAST * _SIZE)
    return vectors[1:] @ vectors[0]


def _leave_one_out(model, views) -> np.ndarray:
    """Returns pixels [V] between each keypoint and the point triangulated from the other views."""
    import cv2

    cameras = [model.cameras[image.camera] for image in model.images]
    off = np.empty(len(views.point))
    for start, end in itertools.pairwise([*views.references, len(views.point)]):
        equations = []
        for point, number in zip(views.point[start:end], views.image[start:end], strict=True):
            image, camera = model.images[number], cameras[number]
            observed = image.keypoints[_keypoint(image, model.ids[point])]
            ray = cv2.undistortPoints(observed, camera.matrix, camera.distortion).reshape(2, 1)
            pose = np.column_stack([image.rotation, image.translation])
            equations.append((ray * pose[2] - pose[:2], observed))
        for row, (_, observed) in enumerate(equations):
            rest = np.concatenate(
                [rays for other, (rays, _) in enumerate(equations) if other != row]
            )
            place = np.linalg.svd(rest)[2][-1]
            image, camera = (
                model.images[views.image[start + row]],
                cameras[views.image[start + row]],
            )
            seen = image.rotation @ (place[:3] / place[3]) + image.translation
            error = np.linalg.norm(camera.project(seen) - observed)
            off[start + row] = error if seen[2] > 0 else np.inf
    return off


if __name__ == "__main__":
    command_line.run(main)
