"""Scores networks and handcrafted descriptors on folders of patch groups.

python experiments/score.py --groups=groups/hseq65-14,groups/oxford65-14 --models=doap-128,rootsift
python experiments/score.py --groups=groups8/hseq65-8+groups28/hseq65-28 --models=doap-128,rootsift
python experiments/score.py --groups=groups5/hseq32 --models=runs/a/model.keras+runs/b/model.keras

Groups are cut by experiments/prepare.sh; all descriptors take patches of any size. Folders joined
by + hold the same groups at several magnifications, over which descriptors are pooled. Models
joined by + are an ensemble: their descriptors lie side by side.
"""

import dataclasses
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import numpy as np
from absl import flags
from group_scores import group_scores

from doap_tf import command_line
from doap_tf.descriptors.pooled_descriptor import pool
from doap_tf.errors import InputError
from doap_tf.zoo import load_descriptor

FLAGS = flags.FLAGS
flags.DEFINE_list("groups", None, "Folders of patch groups; + pools over them.", required=True)
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


class Described:
    """Descriptors of numbered patches: a patch of 2×2 pixels holds the number of its row."""

    def __init__(self, rows: np.ndarray, norm: int):
        self._rows = rows
        self.norm = norm

    def describe(self, patches: np.ndarray) -> np.ndarray:
        return self._rows[patches.reshape(-1, 4).view(np.int32)[:, 0]]


def main(argv: Sequence[str]) -> None:
    del argv
    from doap_tf.drawing.tables import score_table
    from doap_tf.training.validation import Validation

    models = {names: Ensemble(names) for names in FLAGS.models}
    for folders in FLAGS.groups:
        cut = _load(folders)
        numbers = np.arange(len(cut[0].patches), dtype=np.int32)
        numbered = dataclasses.replace(cut[0], patches=numbers.view(np.uint8).reshape(-1, 2, 2))
        rows = {}
        for names, model in models.items():
            described = [model.describe(groups.patches) for groups in cut]
            pooled = described[0] if len(cut) == 1 else pool(np.stack(described), model.norm)
            rows[names] = group_scores(Described(pooled, model.norm), Validation(numbered))
        print(f"\n{folders}:\n{score_table(rows)}", flush=True)


def _load(folders: str) -> list[Any]:
    """Returns the same groups at the magnifications of several folders, joined by +."""
    from doap_tf.data import PatchGroups

    first, *others = cut = [PatchGroups.load(folder) for folder in folders.split("+")]
    if any(not np.array_equal(each.group, first.group) for each in others):
        raise InputError(f"{folders}: only folders of the same groups are pooled.")
    return cut


if __name__ == "__main__":
    command_line.run(main)
