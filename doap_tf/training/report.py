"""What a finished run shows: scores beside those of baselines, and a picture of matches."""

import pathlib
from collections.abc import Sequence

from doap_tf.data import PatchGroups
from doap_tf.descriptors import Descriptor, load
from doap_tf.drawing.patches import draw_nearest
from doap_tf.drawing.pictures import write_picture
from doap_tf.drawing.tables import score_table
from doap_tf.training.validation import Validation

__all__ = ["BASELINE_SIZE", "baseline_scores", "score_table", "write_matches"]

BASELINE_SIZE = 65  # handcrafted descriptors get the detail that patches were cut with


def baseline_scores(
    names: Sequence[str], originals: PatchGroups, seed: int
) -> dict[str, dict[str, float]]:
    """Returns the scores of handcrafted descriptors on validation patches of their own size."""
    validation = Validation(originals, seed)
    return {name: validation.evaluate(load(name)).scores for name in names}


def write_matches(path: pathlib.Path, descriptor: Descriptor, groups: PatchGroups) -> None:
    """Writes a picture of nearest neighbours among validation patches."""
    write_picture(path, draw_nearest(descriptor, groups))
