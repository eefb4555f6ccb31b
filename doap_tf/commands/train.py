"""Trains a descriptor network.

python train_main.py --recipe=quickstart
python train_main.py --recipe=photos --source=FOLDER
python train_main.py --recipes
"""

import contextlib
import dataclasses
import functools
import math
import pathlib
import sys
from collections.abc import Sequence

from absl import flags, logging

from doap_tf import command_line, runs
from doap_tf.commands.config_flags import (
    config_from_flags,
    define_config_flags,
    has_gpu,
    load_initial,
    load_network,
    train_dir,
)
from doap_tf.commands.dataset_flags import (
    dataset_source,
    define_dataset_flags,
    print_default_photographs,
)
from doap_tf.commands.recipes import expand_recipes
from doap_tf.commands.run_scores import print_data, print_scores
from doap_tf.counts import count
from doap_tf.errors import InputError, check_choice
from doap_tf.training.config import TrainingConfig

FLAGS = flags.FLAGS

_BASELINE_SIZE = 65  # patches of handcrafted descriptors, which use more detail


def define_flags() -> None:
    define_dataset_flags(None)
    flags.DEFINE_list(
        "groups", [], "Folders of patch groups (prepare_main.py), instead of --dataset."
    )
    flags.DEFINE_list("weights", [], "Share of each of --groups in a batch; equal by default.")
    flags.DEFINE_string(
        "validation_groups",
        None,
        "Folder of patch groups to choose the model by; then all other data are trained on.",
    )
    flags.DEFINE_float(
        "validation_fraction",
        0.05,
        "Share of the data to choose the model by; 0 to train on all and keep the last model.",
    )
    flags.DEFINE_boolean("label_mining", False, "Mine distractors in a sequence by clustering.")
    flags.DEFINE_string("sampler", "groups", "groups, same_sequence, sequence_pairs or rome.")
    flags.DEFINE_float(
        "sequence_share",
        None,
        "With --sampler=same_sequence: share of a list that comes from four sequences; 0.5 by "
        "default.",
    )
    flags.DEFINE_integer("views", 0, "Maximum number of patches of a group in a batch; 0 for all.")
    flags.DEFINE_float("epochs", 0, "Length of the run in epochs of the sampler.")
    flags.DEFINE_float("decay_epochs", 10, "With --schedule=step: epochs between divisions by ten.")
    flags.DEFINE_list("compare", [], "Baselines to compare with at the end, such as rootsift.")
    define_config_flags(TrainingConfig)


def main(argv: Sequence[str]) -> None:
    del argv
    _check_flags()
    on_gpu = has_gpu()
    if FLAGS.precision == "mixed_bfloat16" and not on_gpu:
        raise InputError("--precision=mixed_bfloat16 requires a GPU, and there is none.")
    from doap_tf.training.strategy import is_chief, make_strategy

    strategy = make_strategy(FLAGS.strategy)  # before any tensor, as several workers require
    from doap_tf.training.sampling import make_sampler
    from doap_tf.training.step import make_loss, make_network
    from doap_tf.training.trainer import Trainer
    from doap_tf.training.validation import Validation

    try:
        config = _training_config(1, on_gpu)
        make_loss(config)
        size = make_network(config).input_size
    except ValueError as error:
        raise InputError(str(error)) from error
    teachers = [load_network("teacher", name, "DescriptorNetwork") for name in config.teachers]
    initial = load_initial(config, "DescriptorNetwork")
    parts, groups, validation_groups = _load_groups(size)
    magnification = _magnification(parts)
    print_data(
        f"{_counts(groups)} at magnification {magnification:g}",
        validation_groups and _counts(validation_groups),
    )
    sampler = make_sampler(
        FLAGS.sampler,
        parts,
        _weights(),
        FLAGS.batch_size,
        FLAGS.seed,
        FLAGS.views or None,
        FLAGS.sequence_share,
    )
    config = _training_config(sampler.steps_per_epoch, on_gpu)
    config = dataclasses.replace(config, magnification=magnification)
    validation = Validation(validation_groups, FLAGS.seed) if validation_groups else None
    folder = train_dir()
    network = Trainer(
        config, groups, sampler, validation, folder, strategy, teachers=teachers, initial=initial
    ).run()
    if is_chief(strategy):
        _export(network, validation_groups or groups, folder)
        if validation_groups:
            data = f"the {count(len(validation_groups), 'validation patch')}"
            print_scores(folder, data, "lower --learning_rate", _baselines())
        pictured = "validation" if validation_groups else "training"
        print(
            f"\n{folder} holds {runs.MODEL}, {runs.SAVED_MODEL}/, {runs.RECORD}, "
            f"{runs.TENSORBOARD}/ and {runs.MATCHES}, which shows {pictured} groups"
        )


def _weights() -> list[float]:
    try:
        weights = [float(weight) for weight in FLAGS.weights]
    except ValueError:
        weights = [math.nan]
    if not all(0 < weight < math.inf for weight in weights):
        raise InputError(f"--weights must be numbers above 0, not {','.join(FLAGS.weights)}.")
    return weights


def _counts(groups) -> str:
    return f"{count(len(groups), 'patch')} in {count(groups.group_count, 'group')}"


def _export(network, groups, folder: pathlib.Path) -> None:
    from doap_tf.descriptors import Descriptor
    from doap_tf.drawing.patches import draw_nearest
    from doap_tf.drawing.pictures import write_picture
    from doap_tf.export.saved_model import export_saved_model, versions

    saved_model = folder / runs.SAVED_MODEL
    if not versions(saved_model):
        export_saved_model(network, saved_model, training_record=runs.read_record(folder))
    write_picture(folder / runs.MATCHES, draw_nearest(Descriptor(network), groups))


def _baselines() -> dict[str, dict[str, float]]:
    """Returns the scores of the descriptors of --compare."""
    from doap_tf.training.validation import Validation
    from doap_tf.zoo import load_descriptor

    if not FLAGS.compare:
        return {}
    validation = Validation(_dataset_source().load_validation(_BASELINE_SIZE), FLAGS.seed)
    return {name: validation.evaluate(load_descriptor(name)).scores for name in FLAGS.compare}


def _check_flags() -> None:
    """Checks the flags before anything is loaded."""
    from doap_tf.descriptors import HANDCRAFTED
    from doap_tf.training.sampling import SAMPLERS

    if bool(FLAGS.dataset) == bool(FLAGS.groups):
        raise InputError("give --recipe, such as --recipe=photos, or either --dataset or --groups.")
    for name in ("source", "kind", "config", "split"):
        if FLAGS.groups and FLAGS[name].value is not None:
            raise InputError(f"--{name} is for --dataset, not for --groups.")
    if FLAGS.label_mining and FLAGS.same_sequence not in (None, "mined"):
        raise InputError(f"--label_mining contradicts --same_sequence={FLAGS.same_sequence}.")
    train_dir()
    if not FLAGS.steps and not FLAGS.epochs:
        raise InputError("give --steps or --epochs above 0.")
    if not (math.isfinite(FLAGS.epochs) and math.isfinite(FLAGS.decay_epochs)):
        raise InputError("--epochs and --decay_epochs must be finite numbers.")
    check_choice("--sampler", FLAGS.sampler, SAMPLERS)
    unknown = set(FLAGS.compare) - set(HANDCRAFTED)
    if unknown:
        raise InputError(f"--compare knows {', '.join(HANDCRAFTED)}, not {', '.join(unknown)}.")
    if FLAGS.compare and (
        not FLAGS.dataset or FLAGS.validation_groups or not FLAGS.validation_fraction
    ):
        raise InputError(
            "--compare requires --dataset and a --validation_fraction above 0: baselines need "
            "validation patches of their own size."
        )
    _weights()
    if FLAGS.dataset:
        _dataset_source()
    _training_config(steps_per_epoch=1, on_gpu=False)


def _dataset_source():
    from doap_tf.data.builders import builder_class

    more = {"magnification"} & set(builder_class(FLAGS.dataset).OPTIONS)
    fraction = 0.0 if FLAGS.validation_groups else FLAGS.validation_fraction
    return dataset_source(*more, validation_fraction=fraction, seed=FLAGS.seed)


def _training_config(steps_per_epoch: int, on_gpu: bool) -> TrainingConfig:
    return config_from_flags(
        TrainingConfig,
        steps=max(1, round(FLAGS.epochs * steps_per_epoch)),
        decay_steps=max(1, round(FLAGS.decay_epochs * steps_per_epoch)),
        same_sequence="mined" if FLAGS.label_mining else "ignored",
        xla=on_gpu,
        precision="mixed_bfloat16" if on_gpu else "float32",
    )


def _magnification(parts) -> float:
    """Returns the magnification of the network: the flag's, or else that of the groups."""
    cut_at = sorted({part.magnification for part in parts} - {None})
    all_known = all(part.magnification for part in parts)
    shown = " and ".join(f"{magnification:g}" for magnification in cut_at)
    if FLAGS.magnification is not None:
        if all_known and FLAGS.magnification not in cut_at:
            raise InputError(
                f"--magnification is {FLAGS.magnification:g}, but the patches were cut at {shown}."
            )
        return FLAGS.magnification
    if len(cut_at) > 1:
        raise InputError(
            f"the patches of --groups were cut at {shown}: give --magnification, the one of them "
            "that the network will be used at."
        )
    magnification = cut_at[0] if cut_at else TrainingConfig.magnification
    if not all_known:
        logging.warning(
            "%s patches do not say what they were cut at: magnification %g is assumed; if that is "
            "wrong, give --magnification.",
            "some" if cut_at else "the",
            magnification,
        )
    return magnification


def _load_groups(size: int):
    """Returns the datasets to train on, as one too, and the groups to validate on or None."""
    from doap_tf.data import PatchGroups, mine_labels

    if FLAGS.dataset:
        print_default_photographs()
        train, validation = _dataset_source().load(size, FLAGS.label_mining)
        parts = [train]
    else:
        validation = None
        parts = [PatchGroups.load(folder) for folder in FLAGS.groups]
        if FLAGS.label_mining:
            parts = [mine_labels(part) for part in parts]
        if FLAGS.validation_fraction and not FLAGS.validation_groups:
            splits = [part.hold_out(FLAGS.validation_fraction, FLAGS.seed) for part in parts]
            parts = [train for train, _ in splits]
            validation = PatchGroups.concatenate([held_out for _, held_out in splits])
    if FLAGS.validation_groups:
        validation = PatchGroups.load(FLAGS.validation_groups)
    groups = parts[0] if len(parts) == 1 else PatchGroups.concatenate(parts)
    return parts, groups, validation


def run() -> None:
    """Runs the command. For one release --network hands over to the other one."""
    with contextlib.suppress(flags.Error, ValueError):  # said when the flags are parsed
        sys.argv[:] = FLAGS.read_flags_from_files(sys.argv, force_gnu=False)
    if "--network=keypoints" in sys.argv:
        from doap_tf.commands import train_keypoints

        sys.argv.remove("--network=keypoints")
        print(
            "--network=keypoints will go with the next release: use doap-train-keypoints, or "
            "python -m doap_tf.commands.train_keypoints",
            file=sys.stderr,
        )
        train_keypoints.run()
    define_flags()
    command_line.run(main, expand=functools.partial(expand_recipes, command="train"))
