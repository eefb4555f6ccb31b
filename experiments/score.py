"""Scores networks and handcrafted descriptors on folders of patch groups.

python experiments/score.py --groups=groups/hseq32,groups/oxford32 --models=doap-128,doap-256b
python experiments/score.py --groups=groups/hseq65,groups/oxford65 --models=sift,rootsift
python experiments/score.py --groups=groups5/hseq32 --models=runs/a/model.keras+runs/b/model.keras

Groups are cut by experiments/prepare.sh: networks take those of their size, handcrafted descriptors
the 65 pixels at HPatches' magnification. Networks joined by + are an ensemble: their descriptors
lie side by side.
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags
from group_scores import group_scores

from doap_tf import command_line
from doap_tf.errors import InputError
from doap_tf.zoo import load_descriptor

FLAGS = flags.FLAGS
flags.DEFINE_list("groups", None, "Folders of patch groups.", required=True)
flags.DEFINE_list(
    "models", None, "Names or paths of networks, or of baselines; + joins them.", required=True
)


class Ensemble:
    """Descriptors of several networks side by side; their names are joined by +."""

    def __init__(self, names: str):
        self._members = [load_descriptor(name) for name in names.split("+")]
        self.norm, *others = {member.norm for member in self._members}
        if others:
            raise InputError(f"{names}: an ensemble is of floats or of bits, not of both.")

    def describe(self, patches: np.ndarray) -> np.ndarray:
        return np.concatenate([member.describe(patches) for member in self._members], axis=1)


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.data import PatchGroups
    from doap_tf.drawing.tables import score_table
    from doap_tf.training.validation import Validation

    models = {names: Ensemble(names) for names in FLAGS.models}
    for folder in FLAGS.groups:
        validation = Validation(PatchGroups.load(folder))
        rows = {names: group_scores(model, validation) for names, model in models.items()}
        print(f"\n{folder}:\n{score_table(rows)}", flush=True)


if __name__ == "__main__":
    command_line.run(main)
