"""What train_main.py does with --network=keypoints."""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from absl import flags, logging

from doap_tf import runs
from doap_tf.commands.dataset_flags import print_default_photographs
from doap_tf.errors import InputError

if TYPE_CHECKING:
    from doap_tf.networks import DescriptorNetwork
    from doap_tf.patch_generation.scenes import Scene
    from doap_tf.training.keypoint_config import KeypointConfig

FLAGS = flags.FLAGS


def train_keypoints() -> None:
    """Trains a keypoint network as the flags say."""
    if not FLAGS.train_dir:
        raise InputError("give --train_dir, the folder to write the run to.")
    scenes, held_out = _scenes()
    import cv2
    import tensorflow as tf

    from doap_tf.appearance import preset
    from doap_tf.patch_generation.view_pairs import ViewPairs
    from doap_tf.training.keypoint_objective import KeypointObjective
    from doap_tf.training.keypoint_trainer import KeypointTrainer
    from doap_tf.training.keypoint_validation import KeypointValidation
    from doap_tf.training.strategy import is_chief, make_strategy

    on_gpu = bool(tf.config.list_physical_devices("GPU"))
    if FLAGS.xla and not on_gpu:
        logging.warning("--xla without a GPU makes steps slower.")
    config = _config(on_gpu)
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
    print(
        f"training on {pairs}, "
        + (
            f"validating on {validation.pairs}"
            if validation
            else "without validation: the last network is kept"
        ),
        flush=True,
    )
    train_dir = pathlib.Path(FLAGS.train_dir)
    network = KeypointTrainer(config, pairs, objective, validation, train_dir, strategy).run()
    if is_chief(strategy):
        _export(network, train_dir)
        if validation:
            _print_scores(train_dir)
        print(
            f"\n{train_dir} holds {runs.MODEL}, {runs.KEYPOINTS}, {runs.RECORD} and "
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


def _config(on_gpu: bool) -> "KeypointConfig":
    """Returns the settings: those of the flags that are given, else the defaults of keypoints."""
    from doap_tf.training.keypoint_config import KeypointConfig

    values: dict[str, Any] = {
        field.name: FLAGS[field.name].value
        for field in dataclasses.fields(KeypointConfig)
        if FLAGS[field.name].present
    }
    if "filters" in values:
        try:
            values["filters"] = tuple(int(count) for count in values["filters"])
        except ValueError as error:
            raise InputError(
                f"--filters must be whole numbers such as 16,16, not {','.join(FLAGS.filters)}."
            ) from error
    values["xla"] = on_gpu if FLAGS.xla is None else FLAGS.xla
    return KeypointConfig(**values)


def _descriptor(name: str, on_gpu: bool) -> "DescriptorNetwork":
    """Returns the network that ranks places, on a GPU in mixed precision, twice as fast."""
    from doap_tf.descriptors import from_pretrained

    network = from_pretrained(name).network
    if network is None:
        raise InputError(
            f"--descriptor must be a name, a training directory, .npz or .keras, not {name}: "
            "TensorFlow has to run it within a step."
        )
    if not on_gpu:
        return network
    fast = type(network).from_config({**network.get_config(), "dtype": "mixed_bfloat16"})
    fast.build((None, network.input_size, network.input_size, 1))
    fast.set_weights(network.get_weights())
    return fast


def _export(network: Any, train_dir: pathlib.Path) -> None:
    from doap_tf.export.keypoint_tflite import convert_keypoints_to_tflite
    from doap_tf.files import write_atomically

    with write_atomically(train_dir / runs.KEYPOINTS) as temporary:
        temporary.write_bytes(convert_keypoints_to_tflite(network))


def _print_scores(train_dir: pathlib.Path) -> None:
    from doap_tf.drawing.tables import score_table

    record = runs.read_record(train_dir)
    best = dict(record["best"])
    step = best.pop("step")
    rows = {"untrained": record["history"][0]["validation"], f"trained ({step} steps)": best}
    print(f"\nOn pairs of views of held-out photographs:\n{score_table(rows)}")
    if step == 0:
        print(
            "\nNo validation was better than the untrained network: train longer, or lower "
            "--keypoint_cost."
        )
