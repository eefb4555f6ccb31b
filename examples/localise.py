r"""Leaves photographs out of a reconstruction, finds where they were taken, and prints the errors.

python examples/localise.py --images=photos --folder=localisation
python examples/localise.py --images=photos --folder=localisation \
  --models=dog_dense:rootsift,dog_dense:doap-128,doap-dense-128

--images are photographs of one scene by one camera. Features of each of --models are matched
in all pairs: mutual nearest neighbours that pass a ratio of 0.9. Groups of --left_out photographs
are left out in turn, and the program colmap maps the others. A photograph is localised by its
matches with keypoints of the map whose place in space is known: PnP in RANSAC, by OpenCV.

Maps are aligned with a reference by the cameras that both have. It is the reconstruction of all
photographs by the features of the first of --models, and so in favour of these: also try another
order. --reference is one that you have, a model of COLMAP, or a folder of surveyed cameras, the
files NAME.camera of Strecha's benchmark.

- localised: photographs whose pose at least twelve matches support, of those of the reference.
- position: median distance from the camera of the reference, in per mille of the largest distance
  between two of its cameras; rotation: median angle in degrees; inliers: median number of matches
  that support a pose. In brackets 95 % intervals over the photographs (bootstrap). A photograph
  that is not localised has infinite errors and no inliers.

What --folder holds is not computed again.
"""

import hashlib
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import cv2
import numpy as np
from absl import flags

from doap_tf import command_line, matching
from doap_tf.drawing.tables import Table
from doap_tf.errors import InputError
from doap_tf.evaluation.image_model import load_extractor
from doap_tf.evaluation.two_view_scores import bootstrap_interval
from doap_tf.files import contents_sha256
from doap_tf.readers.colmap_model import Model, read_model

FLAGS = flags.FLAGS
flags.DEFINE_string("images", None, "Folder of photographs by one camera.", required=True)
flags.DEFINE_string("folder", None, "Folder for features and maps.", required=True)
flags.DEFINE_list(
    "models",
    ["dog_dense:rootsift", "dog_dense:doap-128"],
    "DETECTOR:DESCRIPTOR, or a network of whole images, as for --benchmark=pose.",
)
flags.DEFINE_string("reference", None, "Folder of a model of COLMAP, or of NAME.camera files.")
flags.DEFINE_integer("max_keypoints", 4000, "Of a photograph.", lower_bound=1)
flags.DEFINE_integer("left_out", 5, "Photographs that are left out at a time.", lower_bound=1)
flags.DEFINE_float("threshold", 4.0, "Pixels of an inlier of a pose.", lower_bound=0)
flags.DEFINE_string(
    "mapper_options",
    "--Mapper.init_max_forward_motion=1 --Mapper.init_min_tri_angle=4",
    "Of the program `colmap mapper`.",
)

_MIN_CAMERAS = 3  # of a map
_MIN_INLIERS = 12  # of a pose that is believed
_ITERATIONS = 10_000
_CAMERA_NUMBERS = 26  # of a .camera file: matrix, three zeros, rotation, centre, size


class Pose(NamedTuple):
    """A camera's pose: X of the world has the camera's coordinates rotation · X + translation."""

    rotation: np.ndarray
    translation: np.ndarray
    inliers: int


class Similarity(NamedTuple):
    """The map scale · turn · X + offset of a world to another."""

    scale: float
    turn: np.ndarray
    offset: np.ndarray


class Camera(NamedTuple):
    """A camera of the reference: the rotation from the world to it, and its centre."""

    rotation: np.ndarray
    centre: np.ndarray


Reference = Mapping[str, Camera]


def main(argv: Sequence[str]) -> None:
    del argv
    if shutil.which("colmap") is None:
        raise InputError("there is no COLMAP: install the program colmap.")
    images = matching.find_images(FLAGS.images)
    if len(images) < FLAGS.left_out + _MIN_CAMERAS:
        raise InputError(
            f"--images={FLAGS.images} holds {len(images)} photographs; give at least "
            f"{FLAGS.left_out + _MIN_CAMERAS}, or leave fewer out."
        )
    reference = _read_reference(pathlib.Path(FLAGS.reference)) if FLAGS.reference else None
    rows = {}
    for name in FLAGS.models:
        folder = pathlib.Path(FLAGS.folder) / name.replace("/", "_").replace(":", "_")
        with matching.Pipeline(
            folder,
            load_extractor(name, FLAGS.max_keypoints),
            matching.NearestNeighbours("mutual_ratio", 0.9),
            matching.Verifier(threshold=0.9),
        ) as pipeline:
            outcome = pipeline.run(images, matching.exhaustive_pairs)
            pipeline.write(images, outcome, ["colmap"], matching.Cameras(images, "single"))
            maps = folder / f"maps-{contents_sha256(folder / 'database.db')[:16]}"
            if reference is None:
                whole = _map(maps, outcome.names)
                if whole is None:
                    raise InputError(
                        f"COLMAP found no model of {FLAGS.images} with {name}: give more "
                        "photographs, another first model or other --mapper_options."
                    )
                reference = _cameras(whole)
            errors = _errors_of_all(pipeline.store, maps, outcome, reference)
        rows[name] = _row(errors)
    print(Table(rows, "").markdown())


def _read_reference(folder: pathlib.Path) -> Reference:
    surveyed = sorted(folder.glob("*.camera"))
    if not surveyed:
        return _cameras(read_model(folder, FLAGS.images))
    cameras = {}
    for path in surveyed:
        try:
            numbers = np.array(path.read_text("utf-8").split(), np.float64).reshape(_CAMERA_NUMBERS)
        except ValueError as error:
            raise InputError(f"{path} must hold {_CAMERA_NUMBERS} numbers ({error}).") from error
        # After the matrix and three zeros: the axes of the camera as columns, and its centre.
        cameras[path.stem] = Camera(numbers[12:21].reshape(3, 3).T, numbers[21:24])
    return cameras


def _cameras(model: Model) -> Reference:
    return {image.name: Camera(image.rotation, image.centre) for image in model.images}


def _errors_of_all(
    store: matching.MatchStore,
    maps: pathlib.Path,
    outcome: matching.Outcome,
    reference: Reference,
) -> np.ndarray:
    """Returns errors of position and rotation, and inliers, [N, 3], of all of the reference."""
    names, pairs = outcome.names, set(outcome.pairs)
    groups = -(-len(names) // FLAGS.left_out)
    errors = []
    for group in range(groups):
        left_out = names[group::groups]
        others = [name for name in names if name not in left_out]
        model = _map(maps, others)
        for name in left_out:
            if name not in reference:
                continue
            pose = _localise(store, pairs, name, model) if model else None
            inliers = pose.inliers if pose else 0
            position, rotation = _errors(pose, name, model, reference)
            errors.append((position, rotation, inliers))
            print(
                f"{maps.parent.name} {name}: {inliers} inliers, {position:.2f} ‰, {rotation:.3f}°",
                flush=True,
            )
    if not errors:
        raise InputError(f"the reference has none of the photographs in {FLAGS.images}.")
    return np.array(errors)


def _map(maps: pathlib.Path, names: Sequence[str]) -> Model | None:
    """Returns COLMAP's model of most of these photographs; None if it finds none."""
    listed = "\n".join(names)
    output = maps / hashlib.sha256((listed + FLAGS.mapper_options).encode()).hexdigest()[:16]
    if not output.exists():
        temporary = maps / "unfinished"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        (maps / "names.txt").write_text(listed, "utf-8")
        command = ["colmap", "mapper", "--database_path", maps.parent / "database.db"]
        command += ["--image_path", FLAGS.images, "--image_list_path", maps / "names.txt"]
        command += ["--output_path", temporary, *FLAGS.mapper_options.split()]
        subprocess.run(list(map(str, command)), capture_output=True)
        temporary.rename(output)
    models = [read_model(path, FLAGS.images) for path in output.iterdir()]
    return max(models, key=lambda model: (len(model.images), len(model.ids)), default=None)


def _localise(
    store: matching.MatchStore, pairs: set[tuple[str, str]], name: str, model: Model
) -> Pose | None:
    """Returns the pose of a photograph in a map, None where too few matches agree."""
    seen = []
    for image in model.images:
        if (name, image.name) in pairs:
            rows, others = store.read_pair(name, image.name).indices.T
        else:
            others, rows = store.read_pair(image.name, name).indices.T
        points = image.points[others]
        seen.append(np.stack([rows, points], axis=1)[points >= 0])
    rows, points = np.unique(np.concatenate(seen), axis=0).T
    if len(rows) < _MIN_INLIERS:
        return None
    # COLMAP's origin is the corner of the first pixel, ours its centre.
    pixels = store.read_features(name).points[rows] + 0.5
    places = model.places[np.searchsorted(model.ids, points)]
    camera = model.cameras[model.images[0].camera]
    cv2.setRNGSeed(0)
    found, vector, translation, inliers = cv2.solvePnPRansac(
        places,
        pixels,
        camera.matrix,
        camera.distortion,
        iterationsCount=_ITERATIONS,
        reprojectionError=FLAGS.threshold,
        confidence=0.9999,
        flags=cv2.SOLVEPNP_AP3P,
    )
    if not found or len(inliers) < _MIN_INLIERS:
        return None
    kept = inliers[:, 0]
    vector, translation = cv2.solvePnPRefineLM(
        places[kept], pixels[kept], camera.matrix, camera.distortion, vector, translation
    )
    return Pose(cv2.Rodrigues(vector)[0], translation[:, 0], len(kept))


def _errors(
    pose: Pose | None, name: str, model: Model | None, reference: Reference
) -> tuple[float, float]:
    """Returns the errors of position, in per mille of the extent, and of rotation, in degrees."""
    if pose is None or model is None or (world := _alignment(model, reference)) is None:
        return np.inf, np.inf
    truth = reference[name]
    centre = world.scale * world.turn @ (-pose.rotation.T @ pose.translation) + world.offset
    turn = truth.rotation @ world.turn @ pose.rotation.T
    return (
        1000 * float(np.linalg.norm(centre - truth.centre) / _extent(reference)),
        float(np.degrees(np.linalg.norm(cv2.Rodrigues(turn)[0]))),
    )


def _extent(reference: Reference) -> float:
    """Returns the largest distance between two cameras."""
    centres = np.array([camera.centre for camera in reference.values()])
    return np.linalg.norm(centres[:, np.newaxis] - centres, axis=-1).max()


def _alignment(model: Model, reference: Reference) -> Similarity | None:
    """Returns the map from a model to the reference by the cameras that both have.

    The turn is the mean of those of the cameras: centres in a line would leave it open.
    """
    common = [image for image in model.images if image.name in reference]
    if len(common) < _MIN_CAMERAS:
        return None
    truth = [reference[image.name] for image in common]
    turns = [
        camera.rotation.T @ image.rotation for image, camera in zip(common, truth, strict=True)
    ]
    u, _, v = np.linalg.svd(sum(turns))
    turn = u @ np.diag([1, 1, np.linalg.det(u @ v)]) @ v
    centres1 = np.array([image.centre for image in common]) @ turn.T
    centres2 = np.array([camera.centre for camera in truth])
    spread1, spread2 = centres1 - centres1.mean(axis=0), centres2 - centres2.mean(axis=0)
    scale = (spread1 * spread2).sum() / (spread1**2).sum()
    return Similarity(scale, turn, centres2.mean(axis=0) - scale * centres1.mean(axis=0))


def _row(errors: np.ndarray) -> Mapping[str, str]:
    bounds = bootstrap_interval(lambda rows: _medians(errors[rows]), len(errors))
    low, high = np.nan_to_num(bounds, nan=np.inf, posinf=np.inf)  # nan: between infinite draws
    values = [
        f"{value:{form}} ({least:{form}}–{most:{form}})"
        for value, least, most, form in zip(
            _medians(errors), low, high, (".2f", ".3f", ".0f"), strict=True
        )
    ]
    return {
        "localised": f"{np.isfinite(errors[:, 0]).sum()}/{len(errors)}",
        "position, ‰": values[0],
        "rotation, °": values[1],
        "inliers": values[2],
    }


def _medians(errors: np.ndarray) -> np.ndarray:
    return np.quantile(errors, 0.5, axis=0, method="higher")  # of two, one may be infinite


if __name__ == "__main__":
    command_line.run(main)
