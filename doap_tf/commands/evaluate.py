"""Evaluates descriptors on the paper's benchmarks, or whole pipelines on images; writes a report.

python evaluate_main.py --model=rootsift,runs/photos --benchmark=photos --report_dir=reports
python evaluate_main.py --model=dog:rootsift,doap-fast-128 --benchmark=pose --data_dir=castle_p19
"""

import os
import pathlib
import signal
from collections.abc import Sequence
from typing import Any

from absl import flags, logging

from doap_tf import command_line
from doap_tf.errors import InputError

_OF_IMAGES = ("pose", "homography")
BENCHMARKS = ("ubc", "hpatches", "rome", "oxford", "photos", *_OF_IMAGES)

FLAGS = flags.FLAGS

flags.DEFINE_list(
    "model",
    [],
    "Models to evaluate: names of pretrained networks, training directories, .keras files, "
    "SavedModels, .tflite files, or sift, rootsift, orb, vgg, beblid, teblid, pixels; networks of "
    "others as .onnx or TorchScript (.pt) files, or as Python functions, module:function. Pose and "
    "homography: DETECTOR:DESCRIPTOR such as dog:rootsift, a descriptor on the default keypoints, "
    "a network of whole images, sift, rootsift, orb, akaze or another of OpenCV's, or peers: "
    "aliked=FOLDER, r2d2=FOLDER, xfeat=FOLDER, FILE.onnx.",
)
flags.DEFINE_enum("benchmark", None, BENCHMARKS, "The benchmark.")
flags.DEFINE_string(
    "data_dir",
    None,
    "Original files of the benchmark: folders of UBC sets, HPatches sequences, Rome's .mat files "
    "or image sequences; for photos a folder or glob of images (scikit-image's by default); for "
    "pose one or several, separated by commas.",
)
flags.DEFINE_string("report_dir", None, "Parent of the folder to which the report is written.")
flags.DEFINE_string("cache_dir", None, "Folder for descriptors; <report_dir>/cache by default.")
flags.DEFINE_enum(
    "average_precision",
    "trapezoid",
    ["trapezoid", "mean_precision"],
    "Area under the interpolated precision-recall curve (HPatches' Python benchmark), or mean "
    "precision at the positives (its MATLAB benchmark).",
)
flags.DEFINE_integer(
    "memory_mb",
    1024,
    "Limit for descriptors and distances in memory; the network's own memory comes on top.",
    lower_bound=256,
)
# HPatches and photos
flags.DEFINE_string(
    "split", "a", "HPatches: a, b, c, illum, view, full, or all for every sequence in the folder."
)
flags.DEFINE_list(
    "tasks", None, "HPatches, photos: some of verification, matching, retrieval; all by default."
)
flags.DEFINE_string(
    "tasks_dir",
    None,
    "HPatches: folder of the official task files; by default tasks are drawn by their rule.",
)
flags.DEFINE_boolean(
    "normalise", False, "HPatches: ZCA and power-law normalisation, learnt on the training part."
)
flags.DEFINE_integer(
    "verification_pairs", 1_000_000, "HPatches, photos: pairs of each kind to draw.", lower_bound=10
)
flags.DEFINE_enum(
    "kind", "photos", ["photos", "aligned", "sequences"], "Photos: how the images belong together."
)
# Rome
flags.DEFINE_enum(
    "queries",
    "first",
    ["first", "all"],
    "Rome: the first patch of each group queries the other 9,000 of its half, as the dataset's own "
    "script does it; or every patch queries all others.",
)
# Oxford
flags.DEFINE_list("detectors", ["harris_affine", "dog"], "Oxford: detectors of frames.")
flags.DEFINE_string(
    "magnification",
    "paper",
    "Oxford: half the side of a patch over its frame's radius: a number, paper for the paper's 3, "
    "or own for what each descriptor was made for.",
)
# Pose and homography
flags.DEFINE_integer(
    "max_keypoints", 2048, "Pose, homography: keypoints of an image; 0 for all.", lower_bound=0
)
flags.DEFINE_integer(
    "max_image_size",
    0,
    "Pose, homography: shrink larger images to this longer side; 0: never.",
    lower_bound=0,
)
flags.DEFINE_string(
    "method", "mutual", "Pose, homography: nearest, mutual, ratio or mutual_ratio neighbours."
)
flags.DEFINE_float("ratio", 0.8, "Pose, homography: Lowe's ratio.")
flags.DEFINE_float(
    "threshold",
    None,
    "Pose, homography: pixels of an inlier; by default 1 for poses and 3 for homographies.",
)
flags.DEFINE_string(
    "validation_dir",
    None,
    "Pose: instead of --threshold, a folder by which the threshold of each model is chosen.",
)


def main(argv: Sequence[str]) -> None:
    del argv
    _check_flags()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _evaluate()
    except KeyboardInterrupt:
        kept = (
            "starts again"
            if FLAGS.benchmark in _OF_IMAGES
            else ("resumes with the descriptors computed so far")
        )
        raise command_line.Interrupted(
            f"interrupted before the report; the same command {kept}."
        ) from None


def _evaluate() -> None:
    from doap_tf.evaluation import (
        comparison_tables,
        heading,
        load_image_models,
        load_models,
        protocols,
        write_report,
    )

    if FLAGS.benchmark in _OF_IMAGES:
        models: list[Any] = load_image_models(FLAGS.model, FLAGS.max_keypoints)
    else:
        models = load_models(FLAGS.model)
    benchmark = _benchmark(FLAGS.cache_dir or os.path.join(FLAGS.report_dir, "cache"))
    for model in models:
        if "data" not in model.training:
            logging.warning(
                "it is not known what %s was trained on; it may have seen these scenes.", model.name
            )
    if FLAGS.benchmark == "oxford":
        _warn_of_magnification(models)
    results = [benchmark.evaluate(model) for model in models]
    folder = write_report(results, FLAGS.report_dir)
    print("\n".join(protocols(results)))
    for table in comparison_tables(results)[: 3 if results[0].measures else 1]:
        print(f"\n{heading(table)}:\n\n{table.markdown()}")
    print(f"\n{folder / 'index.html'} shows them with plots.")


def _benchmark(cache_dir: str) -> Any:
    """Makes the benchmark, whose `evaluate(model)` returns a `Result`."""
    from doap_tf import evaluation

    data_dir = FLAGS.data_dir
    memory = {"memory_mb": FLAGS.memory_mb}
    precision = {"method": FLAGS.average_precision, **memory}
    tasks = {
        "tasks": FLAGS.tasks,
        "tasks_dir": FLAGS.tasks_dir,
        "normalise": FLAGS.normalise,
        "pairs": FLAGS.verification_pairs,
        **precision,
    }
    frames = {"detectors": FLAGS.detectors, "magnification": _magnification(), **precision}
    makers = {
        "ubc": lambda: evaluation.UBC(data_dir, cache_dir, **memory),
        "hpatches": lambda: evaluation.HPatches(
            evaluation.PatchSequences(data_dir, FLAGS.split), cache_dir, **tasks
        ),
        "rome": lambda: evaluation.Rome(data_dir, cache_dir, queries=FLAGS.queries, **precision),
        "oxford": lambda: evaluation.Oxford(data_dir, cache_dir, **frames),
        "pose": lambda: evaluation.Pose(
            data_dir.split(","), validation=FLAGS.validation_dir, **_pairs()
        ),
        "homography": lambda: evaluation.Homography(data_dir, **_pairs()),
        "photos": lambda: evaluation.HPatches(
            evaluation.photo_sequences(data_dir, cache_dir, FLAGS.kind), cache_dir, **tasks
        ),
    }
    return makers[FLAGS.benchmark]()


def _pairs() -> dict[str, Any]:
    """What the benchmarks of images share."""
    from doap_tf.matching import NearestNeighbours

    return {
        "threshold": FLAGS.threshold,
        "matcher": NearestNeighbours(FLAGS.method, FLAGS.ratio),
        "max_image_size": FLAGS.max_image_size,
        "memory_mb": FLAGS.memory_mb,
    }


def _magnification() -> float | None:
    """Returns --magnification as a number, None for each descriptor's own."""
    from doap_tf.evaluation.oxford import PAPER_MAGNIFICATION

    named = {"paper": PAPER_MAGNIFICATION, "own": None}
    if FLAGS.magnification in named:
        return named[FLAGS.magnification]
    try:
        return float(FLAGS.magnification)
    except ValueError:
        raise InputError(
            f"--magnification={FLAGS.magnification} must be a number above 0, paper or own."
        ) from None


def _warn_of_magnification(models: Sequence[Any]) -> None:
    used = _magnification()
    for model in models:
        if used is not None and model.magnification not in (None, used):
            logging.warning(
                "%s was made for patches at %g×, but is evaluated at %g×; --magnification=own "
                "evaluates it at its own.",
                model.name,
                model.magnification,
                used,
            )


def _check_flags() -> None:
    """Finds what is wrong before anything is loaded."""
    if not FLAGS.model:
        raise InputError("give --model, such as --model=rootsift,runs/photos.")
    if not FLAGS.benchmark:
        raise InputError(f"give --benchmark, one of {', '.join(BENCHMARKS)}.")
    if not FLAGS.report_dir:
        raise InputError("give --report_dir, the folder to which the report is written.")
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


def run() -> None:
    command_line.run(main)
