"""Trains a network that scores every pixel of an image as a keypoint and describes any point.

python -m doap_tf.commands.train_dense --recipe=dense --source=FOLDER
"""

import functools
import importlib.util
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from absl import flags

from doap_tf import command_line, runs
from doap_tf.commands.config_flags import (
    config_from_flags,
    define_config_flags,
    has_gpu,
    load_initial,
    train_dir,
)
from doap_tf.commands.recipes import expand_recipes
from doap_tf.commands.run_scores import print_data, print_scores
from doap_tf.errors import InputError
from doap_tf.training.dense_config import DenseConfig

if TYPE_CHECKING:
    from doap_tf.training.dense_images import DenseImages

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("source", None, "Folder or glob of photographs.")
    flags.DEFINE_string(
        "aligned_source",
        None,
        "Folder of folders, each of images of one view and size, such as a webcam's; a third of "
        "them are held out.",
    )
    flags.DEFINE_float(
        "validation_fraction", 0.05, "Share of the photographs to choose the model by."
    )
    flags.DEFINE_string(
        "images",
        None,
        "File (.npz) that the images of --source are written to, and without --source read from: "
        "neither OpenCV nor the photographs are needed then. Without --train_dir nothing is "
        "trained.",
    )
    flags.DEFINE_string(
        "tracks",
        None,
        "File (.npz) of photographs of reconstructed scenes and the points that several show, to "
        "train on as well; experiments/reconstruct_scenes.py writes one.",
    )
    define_config_flags(DenseConfig)


def main(argv: Sequence[str]) -> None:
    del argv
    prepare_only = bool(FLAGS.source and FLAGS.images and not FLAGS.train_dir)
    folder = None if prepare_only else train_dir()
    images = _images()
    if folder is None:
        print(f"{FLAGS.images} holds {images.train}, and held out {images.held_out}")
        return
    on_gpu = has_gpu()
    from doap_tf.training.dense_trainer import DenseTrainer
    from doap_tf.training.scene_tracks import load_tracks
    from doap_tf.training.strategy import is_chief, make_strategy

    precision = "mixed_bfloat16" if on_gpu else "float32"
    config = config_from_flags(DenseConfig, xla=on_gpu, precision=precision)
    strategy = make_strategy(FLAGS.strategy)
    tracks = load_tracks(FLAGS.tracks) if FLAGS.tracks else None
    sources = ", ".join(str(source) for source in (images.train, tracks) if source)
    print_data(sources, images.held_out)
    initial = load_initial(config, "DenseNetwork")
    network = DenseTrainer(config, images, folder, strategy, tracks, initial).run()
    if is_chief(strategy):
        exported = _export(network, folder)
        _print_scores(folder, config)
        print(
            f"\n{folder} holds {runs.MODEL}, {exported}{runs.RECORD} and {runs.TENSORBOARD}/",
        )


def _images() -> "DenseImages":
    from doap_tf.training.dense_images import load_images, read_images

    if FLAGS.source is None:
        if FLAGS.images is None:
            raise InputError("give --source, photographs, or --images, a file of them.")
        return load_images(FLAGS.images)
    images = read_images(FLAGS.source, FLAGS.aligned_source, FLAGS.validation_fraction)
    if FLAGS.images is None:
        return images
    images.save(FLAGS.images)
    return load_images(FLAGS.images)  # as compressed: the run can go on with the file alone


def _export(network: Any, folder: pathlib.Path) -> str:
    """Writes a .tflite file where LiteRT is installed; returns its name for a list of files."""
    if importlib.util.find_spec("ai_edge_litert") is None:
        return ""
    from doap_tf.export.dense_tflite import convert_dense_to_tflite
    from doap_tf.files import write_file

    write_file(folder / runs.DENSE, convert_dense_to_tflite(network))
    return f"{runs.DENSE}, "


def _print_scores(folder: pathlib.Path, config: DenseConfig) -> None:
    print_scores(folder, "pairs of views of held-out images", "lower --learning_rate")
    history = runs.read_record(folder)["history"]
    speeds = sorted(entry["pairs_per_second"] for entry in history if "loss" in entry)
    if speeds:
        median = config.batch_size / speeds[len(speeds) // 2]
        print(f"\nA step of {config.batch_size} pairs took {1000 * median:.1f} ms (median)")


def run() -> None:
    define_flags()
    command_line.run(main, expand=functools.partial(expand_recipes, command="train-dense"))


if __name__ == "__main__":
    run()
