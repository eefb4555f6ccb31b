"""Scores networks and handcrafted descriptors on folders of patch groups.

python experiments/score.py --groups=groups/hseq32,groups/oxford32 --models=doap-128,doap-256b
python experiments/score.py --groups=groups/hseq65,groups/oxford65 --models=sift,rootsift

Groups are cut by experiments/prepare.sh: networks take those of their size, handcrafted descriptors
the 65 pixels at HPatches' magnification.
"""

import pathlib
import sys
from collections.abc import Sequence

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from absl import flags
from group_scores import group_scores

from doap_tf import command_line

FLAGS = flags.FLAGS
flags.DEFINE_list("groups", None, "Folders of patch groups.", required=True)
flags.DEFINE_list("models", None, "Names or paths of networks, or of baselines.", required=True)


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.data import PatchGroups
    from doap_tf.descriptors import load
    from doap_tf.drawing.tables import score_table
    from doap_tf.training.validation import Validation

    for folder in FLAGS.groups:
        validation = Validation(PatchGroups.load(folder))
        rows = {}
        for model in FLAGS.models:
            rows[model] = group_scores(load(model), validation)
        print(f"\n{folder}:\n{score_table(rows)}", flush=True)


if __name__ == "__main__":
    command_line.run(main)
