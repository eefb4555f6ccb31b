"""Trains a network that detects keypoints.

python -m doap_tf.commands.train_keypoints --recipe=keypoints --source=FOLDER
"""

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from absl import flags

from doap_tf import command_line, runs
from doap_tf.commands.config_flags import (
    config_from_flags,
    define_config_flags,
    has_gpu,
    load_initial,
    load_network,
    train_dir,
)
from doap_tf.commands.dataset_flags import print_default_photographs
from doap_tf.commands.recipes import expand_recipes
from doap_tf.commands.run_scores import print_data, print_scores
from doap_tf.training.keypoint_config import KeypointConfig

if TYPE_CHECKING:
    from doap_tf.networks import DescriptorNetwork
    from doap_tf.patch_generation.scenes import Scene

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("source", None, "Folder or glob of photographs; scikit-image's by default.")
    flags.DEFINE_string(
        "aligned_source",
        None,
        "Folder of folders, each of images of one view and size, such as a webcam's: a fifth of "
        "the pairs of views show two of them.",
    )
    flags.DEFINE_float(
        "validation_fraction",
        0.05,
        "Share of the photographs to choose the model by; 0 to train on all and keep the last "
        "model.",
    )
    define_config_flags(KeypointConfig)


def main(argv: Sequence[str]) -> None:
    del argv
    folder = train_dir()
    scenes, held_out = _scenes()
    on_gpu = has_gpu()
    import cv2

    from doap_tf.appearance import preset
    from doap_tf.export.keypoint_tflite import convert_keypoints_to_tflite
    from doap_tf.files import write_file
    from doap_tf.patch_generation.view_pairs import ViewPairs
    from doap_tf.training.keypoint_objective import KeypointObjective
    from doap_tf.training.keypoint_trainer import KeypointTrainer
    from doap_tf.training.keypoint_validation import KeypointValidation
    from doap_tf.training.strategy import is_chief, make_strategy

    config = config_from_flags(KeypointConfig, xla=on_gpu)
    initial = load_initial(config, "KeypointNetwork")
    strategy = make_strategy(FLAGS.strategy)
    with strategy.scope():
        objective = KeypointObjective(_descriptor(config.descriptor, on_gpu), config.view_size)
    cv2.setNumThreads(1)  # a thread per core cuts views
    pairs = ViewPairs(scenes, config.view_size, config.seed, preset(config.appearance))
    validation = None
    if held_out:
        validation = KeypointValidation(
            ViewPairs(held_out, config.view_size, config.seed), objective, config
        )
    print_data(pairs, validation and validation.pairs)
    trainer = KeypointTrainer(config, pairs, objective, validation, folder, strategy, initial)
    network = trainer.run()
    if is_chief(strategy):
        write_file(folder / runs.KEYPOINTS, convert_keypoints_to_tflite(network))
        if validation:
            data = "pairs of views of held-out photographs"
            print_scores(folder, data, "lower --keypoint_cost")
        print(
            f"\n{folder} holds {runs.MODEL}, {runs.KEYPOINTS}, {runs.RECORD} and "
            f"{runs.TENSORBOARD}/"
        )


def _scenes() -> "tuple[list[Scene], list[Scene]]":
    """Returns the scenes to train on, and the photographs to validate on."""
    from doap_tf.patch_generation.scenes import default_scenes, find_scenes, split_scenes

    if FLAGS.source is None:
        print_default_photographs()
        train, held_out = default_scenes()
        held_out = held_out if FLAGS.validation_fraction else []
    else:
        train, held_out = split_scenes(find_scenes(FLAGS.source), FLAGS.validation_fraction)
    if FLAGS.aligned_source is not None:
        train += find_scenes(FLAGS.aligned_source, "aligned")
    return train, held_out


def _descriptor(name: str, on_gpu: bool) -> "DescriptorNetwork":
    """Returns the network that ranks places, on a GPU in mixed precision, twice as fast."""
    network = load_network("descriptor", name, "DescriptorNetwork")
    if not on_gpu:
        return network
    fast = type(network).from_config({**network.get_config(), "dtype": "mixed_bfloat16"})
    fast.build((None, network.input_size, network.input_size, 1))
    fast.set_weights(network.get_weights())
    return fast


def run() -> None:
    define_flags()
    command_line.run(main, expand=functools.partial(expand_recipes, command="train-keypoints"))


if __name__ == "__main__":
    run()
