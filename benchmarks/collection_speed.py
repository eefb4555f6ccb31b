"""Compares the time that a collection takes with COLMAP's, from photographs to verified matches.

python benchmarks/collection_speed.py --images=photos
python benchmarks/collection_speed.py --images=photos --keypoints=6000 --rounds=2

Ours is `match_main.py --format=colmap`, all pairs; COLMAP's its feature extractor and exhaustive
matcher, on the CPU, by their defaults. The program `colmap` is used where it is installed,
otherwise pycolmap (`pip install '.[colmap]'`). With --keypoints both are told to keep so many of an
image; COLMAP keeps whole levels of scale, so look at how many these are. Both sides run in turn;
the round of least processor time counts.

- keypoints: mean number of an image; inliers: sum of the verified matches of all pairs.
- s: wall time; cpu s: processor time, which other programs on the machine lengthen less.
- A second table has the seconds of our stages, added up over threads, as `report.json` holds them.
"""

import json
import pathlib
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring
from colmap_commands import Seconds, colmap_command, run_command

from doap_tf import command_line
from doap_tf.catalogue import DEFAULT_DESCRIPTOR
from doap_tf.drawing.tables import Table

FLAGS = flags.FLAGS
flags.DEFINE_string("images", None, "Folder of photographs.", required=True)
flags.DEFINE_list("models", [DEFAULT_DESCRIPTOR], "What match_main.py --model takes.")
flags.DEFINE_integer("keypoints", None, "Most keypoints of an image, for both.")

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
    if FLAGS.keypoints:
        extraction["SiftExtraction.max_num_features"] = FLAGS.keypoints
    steps = ("feature_extractor", extraction), ("exhaustive_matcher", database)
    taken = [run_command(colmap_command(*step), folder) for step in steps]
    return Seconds(*map(sum, zip(*taken, strict=True)))


def _results(folder: pathlib.Path) -> dict[str, Any]:
    connection = sqlite3.connect(folder / "database.db")
    (keypoints,) = connection.execute("SELECT AVG(rows) FROM keypoints").fetchone()
    (inliers,) = connection.execute("SELECT SUM(rows) FROM two_view_geometries").fetchone()
    connection.close()
    report = folder / "report.json"
    stages = json.loads(report.read_text())["seconds"] if report.exists() else {}
    return {"keypoints": keypoints, "inliers": inliers, "stages": stages}


if __name__ == "__main__":
    command_line.run(main)
