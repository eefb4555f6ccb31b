r"""Compares the time that a collection takes with COLMAP's, and the points that come of it.

python benchmarks/collection_speed.py --images=photos
python benchmarks/collection_speed.py --images=photos --keypoints=7700 --peak_threshold=0.0085 \
  --models=doap-fast-128,doap-dense-128 --rounds=1

Ours is `match_main.py --format=colmap`, all pairs; COLMAP's its feature extractor and exhaustive
matcher, on the CPU, by their defaults. COLMAP's mapper then reconstructs both, by its defaults; its
time is not counted. The program `colmap` is used where it is installed, otherwise pycolmap (`pip
install '.[colmap]'`). Both sides run in turn; the round of least processor time counts.

For equal numbers of keypoints, --keypoints limits ours, and --peak_threshold, the contrast from
which COLMAP takes a keypoint (0.0067 by default), its own: its limit keeps whole levels of scale.

- keypoints: mean number of an image; inliers: sum of the verified matches of all pairs.
- images: registered, of all; points: in space; error: mean distance of an observation from the
  projection of its point, in pixels.
- s: wall time until the matches are verified; cpu s: processor time, which other programs on the
  machine lengthen less.
- A second table has the seconds of our stages, added up over threads, as `report.json` holds them.
"""

import json
import math
import pathlib
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring
from colmap_commands import Seconds, colmap_command, projection_errors, run_command, run_mapper

from doap_tf import command_line
from doap_tf.catalogue import DEFAULT_DESCRIPTOR
from doap_tf.drawing.tables import Table

FLAGS = flags.FLAGS
flags.DEFINE_string("images", None, "Folder of photographs.", required=True)
flags.DEFINE_list("models", [DEFAULT_DESCRIPTOR], "What match_main.py --model takes.")
flags.DEFINE_integer("keypoints", None, "Most keypoints of an image, for ours.")
flags.DEFINE_float("peak_threshold", None, "Least contrast of a keypoint, for COLMAP.")

_MATCH = pathlib.Path(__file__).resolve().parent.parent / "match_main.py"
_COLMAP = "COLMAP"


def main(argv: Sequence[str]) -> None:
    del argv
    measuring.print_setting("numpy", "opencv-contrib-python-headless", "ai-edge-litert", "pycolmap")
    best: dict[str, tuple[Seconds, dict[str, Any]]] = {}
    for _ in range(FLAGS.rounds):
        for name in (*FLAGS.models, _COLMAP):
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary)
                seconds = _run_colmap(folder) if name == _COLMAP else _run_ours(name, folder)
                if name not in best or seconds.cpu < best[name][0].cpu:
                    best[name] = seconds, _results(folder)
    peer = best[_COLMAP][0]
    rows = {
        name: {
            "keypoints": f"{results['keypoints']:,.0f}",
            "inliers": f"{results['inliers']:,}",
            "images": results["images"],
            "points": f"{results['points']:,}",
            "error": f"{results['error']:.3f}",
            "s": f"{seconds.wall:.1f}",
            "cpu s": f"{seconds.cpu:.1f}",
            "× as fast as COLMAP": f"{peer.wall / seconds.wall:.2f}",
            "by cpu": f"{peer.cpu / seconds.cpu:.2f}",
        }
        for name, (seconds, results) in best.items()
    }
    print(Table(rows, "").markdown() + "\n")
    stages = {
        name: {stage: f"{value:.1f}" for stage, value in results["stages"].items()}
        for name, (_, results) in best.items()
        if name != _COLMAP
    }
    print(Table(stages, "seconds").markdown())


def _run_ours(model: str, folder: pathlib.Path) -> Seconds:
    command = [sys.executable, _MATCH, f"--images={FLAGS.images}", "--format=colmap"]
    command += [f"--model={model}", f"--output={folder}"]
    if FLAGS.keypoints:
        command.append(f"--max_keypoints={FLAGS.keypoints}")
    return run_command(command, folder)


def _run_colmap(folder: pathlib.Path) -> Seconds:
    database = {"database_path": folder / "database.db"}
    extraction = {**database, "image_path": FLAGS.images}
    if FLAGS.peak_threshold:
        extraction["SiftExtraction.peak_threshold"] = FLAGS.peak_threshold
    steps = ("feature_extractor", extraction), ("exhaustive_matcher", database)
    taken = [run_command(colmap_command(*step), folder) for step in steps]
    return Seconds(*map(sum, zip(*taken, strict=True)))


def _results(folder: pathlib.Path) -> dict[str, Any]:
    database = folder / "database.db"
    connection = sqlite3.connect(database)
    ((count, keypoints),) = connection.execute("SELECT COUNT(*), AVG(rows) FROM keypoints")
    ((inliers,),) = connection.execute("SELECT SUM(rows) FROM two_view_geometries")
    connection.close()
    report = folder / "report.json"
    stages = json.loads(report.read_text())["seconds"] if report.exists() else {}
    results = {"keypoints": keypoints, "inliers": inliers, "stages": stages}
    models = run_mapper(database, pathlib.Path(FLAGS.images), folder)[1]
    if not models:
        return {**results, "images": f"0/{count}", "points": 0, "error": math.nan}
    return {
        **results,
        "images": f"{len(models[0].images)}/{count}",
        "points": len(models[0].ids),
        "error": projection_errors(models[0]).mean(),
    }


if __name__ == "__main__":
    command_line.run(main)
