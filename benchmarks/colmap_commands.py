"""COLMAP's programs for benchmarks: their time, and the models that they make."""

import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import measuring
import numpy as np

from doap_tf.errors import InputError
from doap_tf.readers.colmap_model import Model, read_model

_NO_MODEL = "failed to create sparse model"  # COLMAP's last words, a result and no error here
#: COLMAP's commands, and the same for pycolmap.
_PYCOLMAP = {
    "feature_extractor": "extract_features(a.database_path, a.image_path, device=cpu, **options)",
    "exhaustive_matcher": "match_exhaustive(a.database_path, device=cpu)",
    "mapper": "incremental_mapping(a.database_path, a.image_path, a.output_path)",
}
_PYCOLMAP_COMMAND = """
import argparse, pycolmap
parser = argparse.ArgumentParser()
for name in ("database_path", "image_path", "output_path", "SiftExtraction.peak_threshold"):
    parser.add_argument("--" + name, dest=name.rpartition(".")[2])
a, cpu = parser.parse_args(), pycolmap.Device.cpu
options = {{}}
if a.peak_threshold:
    extraction = pycolmap.FeatureExtractionOptions()
    extraction.sift.peak_threshold = float(a.peak_threshold)
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


def run_mapper(
    database: pathlib.Path, images: pathlib.Path, folder: pathlib.Path, options: Sequence[str] = ()
) -> tuple[Seconds, list[Model]]:
    """Runs COLMAP's incremental mapper; returns the models, those of most images first."""
    output = folder / "sparse"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    paths = {"database_path": database, "image_path": images, "output_path": output}
    seconds = run_command([*colmap_command("mapper", paths), *options], folder)
    models = [read_model(path, images) for path in sorted(output.glob("*"))]
    models.sort(key=lambda model: (len(model.images), len(model.ids)), reverse=True)
    return seconds, models


def projection_errors(model: Model) -> np.ndarray:
    """Returns the distance of every observation from the projection of its point, in pixels."""
    errors = []
    for image in model.images:
        seen = image.points >= 0
        places = model.places[np.searchsorted(model.ids, image.points[seen])]
        projected = model.cameras[image.camera].project(
            places @ image.rotation.T + image.translation
        )
        errors.append(np.linalg.norm(projected - image.keypoints[seen], axis=1))
    return np.concatenate(errors)
