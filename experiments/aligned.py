"""Draws what a spatial transformer does to patches.

python prepare_main.py --source=PHOTOGRAPHS --size=42 --magnification=14 --output=FOLDER
python experiments/aligned.py --groups=FOLDER --model=doap-st-128 --output=aligned.png

Columns are the first and the last patches (the tough ones) of some groups. Rows: patches as they
were cut, aligned, and aligned with black outside of the patch, which shows the affine maps.
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_string("groups", None, "Folder of patch groups.", required=True)
flags.DEFINE_string("model", "doap-st-128", "A network with a spatial transformer.")
flags.DEFINE_string("output", None, "The picture to write.", required=True)
flags.DEFINE_list("numbers", ["0", "1", "2", "3"], "Numbers of the groups.")
flags.DEFINE_integer("views", 4, "Patches per group besides the first.", lower_bound=1)


def main(argv: Sequence[str]) -> None:
    del argv
    import doap_tf
    from doap_tf.data import PatchGroups
    from doap_tf.drawing.patches import draw_alignment
    from doap_tf.drawing.pictures import write_picture
    from doap_tf.errors import InputError

    groups = PatchGroups.load(FLAGS.groups)
    descriptor = doap_tf.from_pretrained(FLAGS.model)
    if groups.size != descriptor.input_size:
        raise InputError(
            f"--groups={FLAGS.groups} has patches of {groups.size} pixels, --model={FLAGS.model} "
            f"expects {descriptor.input_size}."
        )
    rows = []
    for number in FLAGS.numbers:
        if not number.isdecimal() or int(number) >= groups.group_count:
            raise InputError(f"--groups={FLAGS.groups} has no group {number!r}.")
        reference, *views = groups.rows_of(int(number))
        rows += [reference, *views[-FLAGS.views :]]
    write_picture(FLAGS.output, draw_alignment(descriptor, groups.patches[rows], len(rows), zoom=1))


if __name__ == "__main__":
    command_line.run(main)
