"""Cuts or resizes training patches: writes the folders that train_main.py takes as --groups.

python prepare_main.py --source='photos/**/*.jpg' --output=groups/photos
python prepare_main.py --dataset=ubc_phototour --config=liberty --source=ZIP --output=groups/liberty
python prepare_main.py --groups=groups/photos --preview=sheet.png
"""

import pathlib
from collections.abc import Sequence

from absl import flags

from doap_tf import command_line
from doap_tf.appearance import PRESETS
from doap_tf.commands.dataset_flags import (
    dataset_source,
    define_dataset_flags,
    print_default_photographs,
)
from doap_tf.counts import count
from doap_tf.errors import InputError

FLAGS = flags.FLAGS

flags.DEFINE_string("output", None, "Folder to write; it must not exist.")
flags.DEFINE_integer(
    "size", 32, "Side of the patches: 32, or 42 for the spatial transformer.", lower_bound=8
)
flags.DEFINE_boolean("label_mining", False, "Mine labels and keep them with the groups.")
flags.DEFINE_string("preview", None, "PNG file to write, a sheet of some groups.")
flags.DEFINE_string("groups", None, "With --preview alone: an existing folder to look at.")

# What to prepare
define_dataset_flags("photo_patches")

# How photographs are cut
flags.DEFINE_float("magnification", None, "Half a patch's side over its frame's radius; 14.")
flags.DEFINE_integer("max_groups", None, "Maximum number of groups per scene; 500.")
flags.DEFINE_float("max_overlap", None, "Maximum overlap of the patches of two groups; 0.5.")
flags.DEFINE_integer("seed", None, "Of viewpoints, jitter and changes of appearance; 0.")

flags.DEFINE_string(
    "detector", None, "Detector of the frames; hpatches, the three of HPatches, by default."
)
flags.DEFINE_enum(
    "jitter",
    None,
    ["hpatches", "learned"],
    "Errors of the frames: HPatches' at three levels (default), or those of the learned detector.",
)

flags.DEFINE_enum(
    "appearance",
    None,
    list(PRESETS),
    "Changes of appearance: a camera's (default), of light as well, or all (docs/appearance.md).",
)

flags.DEFINE_float(
    "min_correlation",
    None,
    "Correlation from which on a view or an aligned image is taken to show a place; 0.4.",
)

flags.DEFINE_boolean(
    "oriented",
    None,
    "Turn frames to the dominant gradient, the default; --nooriented leaves them upright.",
)

flags.DEFINE_string(
    "beam_options",
    None,
    "Cut photographs with Apache Beam, with these options, such as '--runner=DirectRunner "
    "--direct_num_workers=2 --direct_running_mode=multi_processing'; all workers must see the "
    "photographs and --data_dir under the same paths.",
)

_CUTTING = (
    *("magnification", "max_groups", "max_overlap", "seed", "detector", "jitter"),
    *("appearance", "min_correlation", "oriented", "beam_options"),
)
_SHOWN = 16  # groups on a sheet, and patches per group


def main(argv: Sequence[str]) -> None:
    del argv
    if bool(FLAGS.output) == bool(FLAGS.groups):
        raise InputError("give --output=FOLDER to write, or --groups=FOLDER to look at.")
    if FLAGS.groups and not FLAGS.preview:
        raise InputError("give --preview=FILE.png with --groups.")
    if FLAGS.preview and not FLAGS.preview.lower().endswith(".png"):
        raise InputError(f"--preview={FLAGS.preview} must end in .png.")
    from doap_tf.data import PatchGroups

    if FLAGS.groups:
        groups = PatchGroups.load(FLAGS.groups)
    else:
        source = dataset_source(*_CUTTING)
        if FLAGS.beam_options is not None:
            from doap_tf.beam import pipeline_options

            pipeline_options(FLAGS.beam_options)  # before anything is written
        print_default_photographs()
        groups = source.write(FLAGS.output, FLAGS.size, FLAGS.label_mining)
        cut_at = f", magnification {groups.magnification:g}" if groups.magnification else ""
        print(
            f"{FLAGS.output}: {count(len(groups), 'patch')} of {groups.size}×{groups.size} pixels, "
            f"{count(groups.group_count, 'group')}, "
            f"{count(len(groups.sequence_names), 'sequence')}{cut_at}"
        )
    if FLAGS.preview:
        _draw(groups)


def _draw(groups) -> None:
    import numpy as np

    from doap_tf.drawing.patches import contact_sheet
    from doap_tf.drawing.pictures import write_picture

    shown = min(_SHOWN, groups.group_count)
    chosen = np.sort(np.random.default_rng(0).choice(groups.group_count, shown, replace=False))
    write_picture(pathlib.Path(FLAGS.preview), contact_sheet(groups, chosen, _SHOWN))
    print(f"{FLAGS.preview}: {shown} of {count(groups.group_count, 'group')}")


def run() -> None:
    command_line.run(main)
