"""What a finished run shows: scores beside those of others, and a picture of matches found."""

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from doap_tf import files
from doap_tf.data import PatchGroups
from doap_tf.descriptors import Descriptor, load
from doap_tf.training import pictures
from doap_tf.training.summaries import encode_png
from doap_tf.training.validation import Validation

BASELINE_SIZE = 65  # handcrafted descriptors get the detail that patches were cut with

_SHOWN = 400


def score_table(rows: Mapping[str, Mapping[str, float]]) -> str:
    """A table of scores, a row for each descriptor."""
    columns = list(next(iter(rows.values())))
    width = max(len(name) for name in rows)
    lines = [" " * width + "".join(f"  {column.replace('_', ' '):>18}" for column in columns)]
    for name, scores in rows.items():
        values = "".join(f"  {scores[column]:18.3f}" for column in columns)
        lines.append(f"{name:<{width}}{values}")
    return "\n".join(lines)


def baseline_scores(
    names: Sequence[str], originals: PatchGroups, seed: int
) -> dict[str, dict[str, float]]:
    """Scores of handcrafted descriptors on validation patches of their own size."""
    validation = Validation(originals, seed)
    return {name: validation.evaluate(load(name)).scores for name in names}


def write_matches(path: pathlib.Path, descriptor: Descriptor, groups: PatchGroups) -> None:
    """Writes a picture of nearest neighbours found among validation patches.

    The first patch of each group looks for the last one, which is the hardest in HPatches' order.
    """
    chosen = np.flatnonzero(groups.group_sizes >= 2)[:_SHOWN]
    rows = [groups.rows_of(group) for group in chosen]
    references = groups.patches[[row[0] for row in rows]]
    targets = groups.patches[[row[-1] for row in rows]]
    described = descriptor.describe(references), descriptor.describe(targets)
    picture = pictures.matches_found(references, targets, described, descriptor.norm)
    with files.write_atomically(path) as temporary:
        temporary.write_bytes(encode_png(picture).numpy())
