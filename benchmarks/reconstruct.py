r"""Reconstructs a folder of photographs with COLMAP: by its own SIFT, and by our features.

python benchmarks/reconstruct.py --images=photos
python benchmarks/reconstruct.py --images=photos --models=colmap,doap-128 --folder=models \
  --mapper_options='--Mapper.init_max_forward_motion=1 --Mapper.init_min_tri_angle=4'

`colmap` is COLMAP's SIFT, matcher and verification by its defaults; all others are what
`match_main.py --format=colmap --model=…` writes by its defaults. COLMAP's incremental mapper then
reconstructs each, by its defaults and --mapper_options, and its model of most images counts. The
program `colmap` is used where it is installed, otherwise pycolmap (`pip install '.[colmap]'`).

- images: registered, of all; points: in space; observations: of points in images; track: mean
  number of images that observe a point.
- error: mean distance, in pixels, of an observation from the projection of its point.
- focal: mean focal length of the cameras, in pixels, as the mapper refined it; far from what the
  camera can have had, the model is wrong, however many images it has.
- minutes: wall time; cpu: minutes of processor time. match: until the matches are verified; map:
  the mapper.

With --folder the databases and models stay; matches that are there are not computed again, and
their minutes are then missing.
"""

import pathlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring
from colmap_commands import Seconds, colmap_command, projection_errors, run_command, run_mapper

from doap_tf import command_line
from doap_tf.drawing.tables import Table
from doap_tf.errors import InputError
from doap_tf.readers.colmap_model import Model
from doap_tf.readers.images import IMAGE_SUFFIXES

FLAGS = flags.FLAGS
flags.DEFINE_string("images", None, "Folder of photographs.", required=True)
flags.DEFINE_list(
    "models",
    ["colmap", "rootsift", "doap-128", "doap-mobile-256b"],
    "colmap for COLMAP's SIFT, and what match_main.py --model takes; --flags of match_main.py may "
    "follow, as in 'doap-128 --threshold=2'.",
)
flags.DEFINE_string("folder", None, "Folder for databases and models; by default a temporary one.")
flags.DEFINE_string(
    "mapper_options", "", "Further options of the program `colmap mapper`, for all models."
)

_MATCH = pathlib.Path(__file__).resolve().parent.parent / "match_main.py"
_COLMAP = "colmap"


def main(argv: Sequence[str]) -> None:
    del argv
    images = pathlib.Path(FLAGS.images)
    count = sum(path.suffix.lower() in IMAGE_SUFFIXES for path in images.rglob("*"))
    if count < 2:
        raise InputError(f"--images={images} holds {count} images; give a folder of at least two.")
    if FLAGS.mapper_options and shutil.which("colmap") is None:
        raise InputError("--mapper_options are the program's; install colmap besides pycolmap.")
    measuring.print_setting("numpy", "opencv-contrib-python-headless", "pycolmap")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(FLAGS.folder or temporary)
        rows = {}
        for model in FLAGS.models:
            rows[model] = _reconstruct(model, images, count, folder / model.replace("/", "_"))
            print(Table(rows, "").markdown() + "\n", flush=True)


def _reconstruct(model: str, images: pathlib.Path, count: int, folder: pathlib.Path) -> Mapping:
    """Returns a row of the table."""
    database = folder / "database.db"
    folder.mkdir(parents=True, exist_ok=True)
    paths = {"database_path": database, "image_path": images}
    matching = None
    if not database.exists():
        if model == _COLMAP:
            matching = run_command(colmap_command("feature_extractor", paths), folder)
            second = run_command(
                colmap_command("exhaustive_matcher", {"database_path": database}), folder
            )
            matching = Seconds(matching.wall + second.wall, matching.cpu + second.cpu)
        else:
            name, *further = model.split()
            command = [sys.executable, _MATCH, f"--images={images}"]
            command += ["--format=colmap", f"--model={name}", f"--output={folder}", *further]
            matching = run_command(command, folder)
    mapping, models = run_mapper(database, images, folder, FLAGS.mapper_options.split())
    times = {"match": matching, "map": mapping}
    return {
        **_scores(models, count),
        **{
            f"{name}, {kind}": f"{getattr(taken, attribute) / 60:.1f}"
            for kind, attribute in (("minutes", "wall"), ("cpu", "cpu"))
            for name, taken in times.items()
            if taken is not None
        },
    }


def _scores(models: list[Model], count: int) -> dict[str, str]:
    """Scores of the model of most images; `count` is how many there could be."""
    if not models:
        return {"images": f"0/{count}"}
    best = models[0]
    errors = projection_errors(best)
    return {
        "images": f"{len(best.images)}/{count}",
        "points": f"{len(best.ids):,}",
        "observations": f"{len(errors):,}",
        "track": f"{len(errors) / len(best.ids):.2f}",
        "error": f"{errors.mean():.3f}",
        "focal": f"{np.mean([camera.focal_length for camera in best.cameras.values()]):.0f}",
    }


if __name__ == "__main__":
    command_line.run(main)
