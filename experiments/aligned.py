"""Draws what a spatial transformer makes of patches.

python -m doap_tf.data.prepare --source=PHOTOGRAPHS --size=42 --magnification=14 --output=FOLDER
python experiments/aligned.py --groups=FOLDER --model=doap-st-128 --output=aligned.png

Columns are the reference and the last views (the tough ones) of some groups. Rows: patches as they
were cut, aligned, and aligned with zeros outside of the patch, which shows the maps.
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags

from doap_tf import commands

FLAGS = flags.FLAGS
flags.DEFINE_string("groups", None, "Folder of patch groups.", required=True)
flags.DEFINE_string("model", "doap-st-128", "A network with a spatial transformer.")
flags.DEFINE_string("output", None, "The picture to write, PNG.", required=True)
flags.DEFINE_list("numbers", ["0", "1", "2", "3"], "Numbers of the groups.")
flags.DEFINE_integer("views", 4, "Views of a group beside its reference.", lower_bound=1)

_GAP = 2


def main(argv: Sequence[str]) -> None:
    del argv
    import cv2
    import numpy as np
    import tensorflow as tf

    import doap_tf
    from doap_tf import files
    from doap_tf.data import PatchGroups
    from doap_tf.errors import InputError
    from doap_tf.networks.spatial_transformer import affine_sample

    groups = PatchGroups.load(FLAGS.groups)
    network = doap_tf.from_pretrained(FLAGS.model).network
    if network is None or network.transformer is None:
        raise InputError(f"--model={FLAGS.model} is no Keras network with a spatial transformer.")
    if groups.size != network.input_size:
        raise InputError(
            f"--groups={FLAGS.groups} has patches of {groups.size} pixels, --model={FLAGS.model} "
            f"wants {network.input_size}."
        )
    rows = []
    for number in FLAGS.numbers:
        if not number.isdecimal() or int(number) >= len(groups.group_sizes):
            raise InputError(f"--groups={FLAGS.groups} has no group {number!r}.")
        reference, *views = groups.rows_of(int(number))
        rows += [reference, *views[-FLAGS.views :]]
    patches = groups.patches[rows]
    _, transforms = network.align(patches[..., np.newaxis])

    def sampled(padding: str) -> np.ndarray:
        images = tf.cast(patches[..., np.newaxis], tf.float32)
        return affine_sample(images, transforms, groups.size, padding)[..., 0].numpy()

    lines = [patches, sampled("replicate"), sampled("zeros")]
    sheet = np.vstack(
        [
            np.hstack(np.pad(line, [(0, 0), (_GAP, 0), (_GAP, 0)], constant_values=255))
            for line in lines
        ]
    )
    with files.write_atomically(pathlib.Path(FLAGS.output)) as temporary:
        picture = cv2.imencode(".png", sheet.round().astype(np.uint8))[1]
        temporary.write_bytes(picture.tobytes())


if __name__ == "__main__":
    commands.run(main)
