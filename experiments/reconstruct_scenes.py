r"""Reconstructs scenes with COLMAP and writes their photographs and tracks to train a network on.

python experiments/reconstruct_scenes.py --scenes=fox,fern,kermit --output=tracks.npz
python -m doap_tf.commands.train_dense --flagfile=flags/dense.cfg --images=images.npz \
  --tracks=tracks.npz

A scene is a folder of photographs by one camera. They are matched by match_main.py
(--match_options) and reconstructed by the program colmap's mapper; of several models that of most
images is taken. A model that --folder holds already is not made again; patches are cut around its
points by prepare_main.py --dataset=colmap_patches --source=scenes/fox. Of its points those are kept
that at least --min_track images show, where they are seen at most --max_error pixels from where the
model projects them. Photographs are turned grey and shrunk to --size; the smaller ones are
reflected beyond their borders.
"""

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import cv2
import numpy as np
from absl import flags

from doap_tf import command_line
from doap_tf.errors import InputError
from doap_tf.readers.colmap_model import Model, read_model
from doap_tf.readers.images import read_image

FLAGS = flags.FLAGS
flags.DEFINE_list("scenes", None, "Folders of photographs.", required=True)
flags.DEFINE_string("output", None, "File (.npz) to write.", required=True)
flags.DEFINE_string("folder", "scenes", "Folder for databases and models.")
flags.DEFINE_string(
    "match_options", "--model=rootsift --max_keypoints=4000 --camera=single", "Of match_main.py."
)
flags.DEFINE_string(
    "mapper_options",
    "--Mapper.init_max_forward_motion=1 --Mapper.init_min_tri_angle=4",
    "Of the program `colmap mapper`.",
)
flags.DEFINE_integer("size", 640, "Longer side of the photographs, in pixels.")
flags.DEFINE_integer("min_track", 3, "Images that must show a point.")
flags.DEFINE_float("max_error", 1.5, "Pixels between a point and its projection.")

_MATCH = pathlib.Path(__file__).resolve().parent.parent / "match_main.py"


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.training.scene_tracks import SceneTracks

    if shutil.which("colmap") is None:
        raise InputError("there is no COLMAP: install the program colmap.")
    images: list[np.ndarray] = []
    image_numbers, track_numbers, positions = [], [], []
    count = 0
    for scene in map(pathlib.Path, FLAGS.scenes):
        model = _reconstruct(scene, pathlib.Path(FLAGS.folder) / scene.name)
        before = len(positions)
        for image, track, place in _observations(model):
            image_numbers.append(len(images) + image)
            track_numbers.append(count + track)
            positions.append(place)
        resized = [_canvas(image.path) for image in model.images]
        for row in range(before, len(positions)):
            # COLMAP's origin is the corner of the first pixel, ours its centre.
            scale = resized[image_numbers[row] - len(images)][1]
            positions[row] = positions[row] * scale - 0.5
        images += [canvas for canvas, _ in resized]
        count += len(model.ids)
        print(f"{scene}: {len(model.images)} images, {len(positions) - before:,} observations")
    tracks = SceneTracks(
        np.array(images, np.uint8),
        np.array(image_numbers, np.int32),
        np.array(track_numbers, np.int32),
        np.array(positions, np.float32),
    )
    tracks.save(FLAGS.output)
    pairs = tracks.pairs()
    print(
        f"{FLAGS.output} holds {tracks}: {len(pairs.counts):,} pairs with a median of "
        f"{np.median(pairs.counts):.0f} common points"
    )


def _reconstruct(scene: pathlib.Path, folder: pathlib.Path) -> Model:
    """Returns the model of most images of a scene."""
    sparse, images = folder / "sparse", folder / "images"
    if not any(sparse.glob("*/images.bin")):
        sparse.mkdir(parents=True, exist_ok=True)
        match = [sys.executable, _MATCH, "--format=colmap", *FLAGS.match_options.split()]
        _run([*match, f"--images={scene}", f"--output={folder}"])
        database = ["--database_path", folder / "database.db", "--image_path", scene]
        _run(
            ["colmap", "mapper", *database, "--output_path", sparse, *FLAGS.mapper_options.split()]
        )
    if not images.exists():
        images.symlink_to(scene.resolve())
    models = [read_model(path, scene) for path in sorted(sparse.glob("*")) if path.is_dir()]
    if not models:
        raise InputError(f"COLMAP found no model of {scene}: take more photographs or another.")
    return max(models, key=lambda model: (len(model.images), len(model.ids)))


def _run(command: list) -> None:
    finished = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if finished.returncode:
        last = (finished.stderr or finished.stdout).strip().splitlines()[-1:]
        raise InputError(f"{command[1]} failed ({' '.join(last)}).")


def _observations(model: Model) -> list[tuple[int, int, np.ndarray]]:
    """Returns image, point and position of what is seen near its projection and often enough."""
    good = []
    for number, image in enumerate(model.images):
        seen = np.flatnonzero(image.points >= 0)
        points = np.searchsorted(model.ids, image.points[seen])
        projected = model.cameras[image.camera].project(
            model.places[points] @ image.rotation.T + image.translation
        )
        errors = np.linalg.norm(projected - image.keypoints[seen], axis=1)
        good += [
            (number, int(point), image.keypoints[keypoint])
            for point, keypoint in zip(
                points[errors <= FLAGS.max_error], seen[errors <= FLAGS.max_error], strict=True
            )
        ]
    lengths = np.bincount([point for _, point, _ in good], minlength=len(model.ids))
    return [row for row in good if lengths[row[1]] >= FLAGS.min_track]


def _canvas(path: pathlib.Path) -> tuple[np.ndarray, float]:
    """Returns a photograph, uint8 [size, size], and the scale it was shrunk by."""
    grey = cv2.cvtColor(read_image(path, upright=False)[..., :3], cv2.COLOR_BGR2GRAY)
    height, width = grey.shape
    scale = min(1.0, FLAGS.size / max(height, width))
    shape = round(width * scale), round(height * scale)
    shrunk = cv2.resize(grey, shape, interpolation=cv2.INTER_AREA)
    right, below = (FLAGS.size - side for side in shape)
    return cv2.copyMakeBorder(shrunk, 0, below, 0, right, cv2.BORDER_REFLECT), scale


if __name__ == "__main__":
    command_line.run(main)
