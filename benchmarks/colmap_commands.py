"""COLMAP's programs for benchmarks, and the time that programs take."""

import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import measuring

from doap_tf.errors import InputError

_NO_MODEL = "failed to create sparse model"  # COLMAP's last words, a result and no error here
#: COLMAP's commands, and the same for pycolmap.
_PYCOLMAP = {
    "feature_extractor": "extract_features(a.database_path, a.image_path, **options)",
    "exhaustive_matcher": "match_exhaustive(a.database_path)",
    "mapper": "incremental_mapping(a.database_path, a.image_path, a.output_path)",
}
_PYCOLMAP_COMMAND = """
import argparse, pycolmap
parser = argparse.ArgumentParser()
for name in ("database_path", "image_path", "output_path", "SiftExtraction.max_num_features"):
    parser.add_argument("--" + name, dest=name.rpartition(".")[2])
a = parser.parse_args()
options = {{}}
if a.max_num_features:
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.sift.max_num_features = int(a.max_num_features)
    options["extraction_options"] = extraction
pycolmap.{call}
"""


class Seconds(NamedTuple):
    """Seconds that a command took."""

    wall: float
    cpu: float


def colmap_command(name: str, arguments: Mapping[str, Any]) -> list[Any]:
    """Returns a command line of COLMAP's, on the CPU: of the program, or of pycolmap."""
    words = [text for key, value in arguments.items() for text in (f"--{key}", value)]
    program = shutil.which("colmap")
    if program is None:
        if measuring.peer("pycolmap") is None:
            raise InputError("there is no COLMAP: install colmap, or pip install '.[colmap]'.")
        return [sys.executable, "-c", _PYCOLMAP_COMMAND.format(call=_PYCOLMAP[name]), *words]
    known = subprocess.run([program, name, "-h"], capture_output=True, text=True).stdout
    for option in ("Sift", "Feature"):  # the second since 3.13
        for stage in ("Extraction", "Matching"):
            if f"--{option}{stage}.use_gpu" in known:
                words += [f"--{option}{stage}.use_gpu", "0"]
    return [program, name, *words]


def run_command(command: Sequence[Any], folder: pathlib.Path) -> Seconds:
    """Runs a command, what it prints going to a file in `folder`."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(folder / "log.txt", "a") as log:
        finished = subprocess.run(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    last = (folder / "log.txt").read_text().strip().splitlines()[-1:]
    if finished.returncode and _NO_MODEL not in "".join(last):
        raise InputError(f"{command[1]} failed ({' '.join(last)}).")
    cpu = sum(getattr(after, kind) - getattr(before, kind) for kind in ("ru_utime", "ru_stime"))
    return Seconds(wall, cpu)
