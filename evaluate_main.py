"""Evaluates descriptors on the paper's benchmarks and writes a report.

Example:
    python evaluate_main.py --model=rootsift,runs/photos --benchmark=photos --report_dir=reports
"""

import os
import pathlib
import signal
from collections.abc import Sequence
from typing import NoReturn, Protocol

from absl import flags

from doap_tf import commands
from doap_tf.errors import InputError

BENCHMARKS = ("ubc", "hpatches", "rome", "oxford", "photos")
SMALLEST_MEMORY_MB = 256

FLAGS = flags.FLAGS

flags.DEFINE_list(
    "model",
    [],
    "What to evaluate: names of pretrained networks, training directories, .keras files, "
    "SavedModels, .tflite files, or sift, rootsift, orb, vgg, beblid, teblid, pixels.",
)
flags.DEFINE_enum("benchmark", None, BENCHMARKS, "On what.")
flags.DEFINE_string(
    "data_dir",
    None,
    "Original files of the benchmark: folders of UBC sets, HPatches sequences, Rome's .mat files "
    "or image sequences; for photos a folder or glob of images (scikit-image's by default).",
)
flags.DEFINE_string("report_dir", None, "Where the report is written, in a folder of its own.")
flags.DEFINE_string("cache_dir", None, "Where descriptors are kept; <report_dir>/cache by default.")
flags.DEFINE_enum(
    "average_precision",
    "trapezoid",
    ["trapezoid", "mean_precision"],
    "Area under the interpolated curve (the Python HPatches benchmark), or mean of the precision "
    "at the positives (its MATLAB twin).",
)
flags.DEFINE_integer(
    "memory_mb",
    1024,
    "Most memory for descriptors and distances, besides the network's.",
    lower_bound=SMALLEST_MEMORY_MB,
)
# HPatches and photos
flags.DEFINE_string("split", "a", "HPatches: a, b, c, illum, view, full, or all that is there.")
flags.DEFINE_list("tasks", None, "HPatches, photos: verification, matching, retrieval; or some.")
flags.DEFINE_string(
    "tasks_dir",
    None,
    "HPatches: folder of the official task files; without it the tasks are drawn by their rule.",
)
flags.DEFINE_boolean(
    "normalise", False, "HPatches: ZCA and power-law normalisation, learnt on the training part."
)
flags.DEFINE_integer(
    "verification_pairs", 1_000_000, "HPatches, photos: pairs drawn of each kind.", lower_bound=10
)
flags.DEFINE_enum(
    "kind", "photos", ["photos", "aligned", "sequences"], "Photos: how the images belong together."
)
# Oxford
flags.DEFINE_list("detectors", ["harris_affine", "dog"], "Oxford: detectors of frames.")
flags.DEFINE_float(
    "magnification", 3.0, "Oxford: half the side of a patch over its frame's radius.", lower_bound=0
)


class Benchmark(Protocol):
    """A benchmark, ready to evaluate one model after the other."""

    def evaluate(self, model): ...


def main(argv: Sequence[str]) -> None:
    del argv
    _check_flags()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _evaluate()
    except KeyboardInterrupt:
        raise commands.Interrupted(
            "interrupted, nothing reported; the same command goes on with the descriptors it has."
        ) from None


def _evaluate() -> None:
    from doap_tf.evaluation import load_models, write_report
    from doap_tf.evaluation.tables import comparison_tables

    models = load_models(FLAGS.model)
    benchmark = _benchmark(FLAGS.cache_dir or os.path.join(FLAGS.report_dir, "cache"))
    results = [benchmark.evaluate(model) for model in models]
    folder = write_report(results, FLAGS.report_dir)
    print(f"{results[0].protocol}. Scores in percent:\n")
    print(comparison_tables(results)[0].markdown())
    print(f"\n{folder / 'index.html'} shows them with plots.")


def _benchmark(cache_dir: str) -> Benchmark:
    from doap_tf import evaluation

    data_dir, method, memory_mb = FLAGS.data_dir, FLAGS.average_precision, FLAGS.memory_mb
    if FLAGS.benchmark == "ubc":
        return evaluation.UBC(data_dir, cache_dir, memory_mb)
    if FLAGS.benchmark == "rome":
        return evaluation.Rome(data_dir, cache_dir, method, memory_mb)
    if FLAGS.benchmark == "oxford":
        return evaluation.Oxford(
            data_dir, cache_dir, FLAGS.detectors, FLAGS.magnification, method, memory_mb
        )
    photos = FLAGS.benchmark == "photos"
    return evaluation.HPatches(
        evaluation.photo_sequences(data_dir, cache_dir, FLAGS.kind)
        if photos
        else evaluation.PatchSequences(data_dir, FLAGS.split),
        cache_dir,
        FLAGS.tasks,
        FLAGS.tasks_dir,
        method,
        FLAGS.normalise,
        FLAGS.verification_pairs,
        memory_mb,
        FLAGS.benchmark,
    )


def _check_flags() -> None:
    """Finds what is wrong before anything is loaded."""
    if not FLAGS.model:
        raise InputError("give --model, such as --model=rootsift,runs/photos.")
    if not FLAGS.benchmark:
        raise InputError(f"give --benchmark, one of {', '.join(BENCHMARKS)}.")
    if not FLAGS.report_dir:
        raise InputError("give --report_dir, the folder to write the report to.")
    if not FLAGS.data_dir and FLAGS.benchmark != "photos":
        raise InputError(f"give --data_dir, the folder with the files of {FLAGS.benchmark}.")
    for name in ("report_dir", "cache_dir"):
        folder = FLAGS[name].value
        if folder:
            try:
                pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"--{name}={folder} cannot be made: {error.strerror}.") from error
            if not os.access(folder, os.W_OK):
                raise InputError(f"--{name}={folder} cannot be written to.")


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    commands.run(main)
