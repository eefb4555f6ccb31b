"""Draws groups of patches, one a row: `python -m doap_tf.data.preview --help` says how."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import cv2
import numpy as np
from absl import flags

from doap_tf import commands, files
from doap_tf.data import PatchGroups, builder
from doap_tf.errors import InputError

_GAP = 2
_LABEL_WIDTH = 150
_LABEL_SCALE = 0.4


def contact_sheet(
    groups: PatchGroups, chosen: Sequence[int] | np.ndarray, columns: int, zoom: int = 1
) -> np.ndarray:
    """Draws a row of patches for each chosen group, with its number, size and sequence before it.

    Args:
        groups: Where the patches come from.
        chosen: Group numbers.
        columns: At most so many patches a group.
        zoom: Pixels of the sheet, along each axis, for a pixel of a patch.

    Returns:
        uint8 [height, width]
    """
    columns = min(columns, int(groups.group_sizes[chosen].max()))
    side = groups.size * zoom
    step = side + _GAP
    sheet = np.full([len(chosen) * step + _GAP, _LABEL_WIDTH + columns * step], 255, np.uint8)
    for i, group in enumerate(chosen):
        top = i * step + _GAP
        sequence = groups.group_sequence[group]
        lines = [f"group {group} ({groups.group_sizes[group]})"]
        if sequence >= 0:
            lines.append(groups.sequence_names[sequence])
        for n, line in enumerate(lines):
            place = (_GAP, top + 12 + 14 * n)
            cv2.putText(sheet, line, place, cv2.FONT_HERSHEY_SIMPLEX, _LABEL_SCALE, 0)
        sheet[top : top + side, _LABEL_WIDTH:] = 255  # a long name ends where the patches start
        for j, row in enumerate(groups.rows_of(group)[:columns]):
            left = _LABEL_WIDTH + j * step
            patch = np.kron(groups.patches[row], np.ones([zoom, zoom], np.uint8))
            sheet[top : top + side, left : left + side] = patch
    return sheet


def _define_flags() -> None:
    flags.DEFINE_string("groups", None, "Folder of patch groups; or give --dataset.")
    flags.DEFINE_string("dataset", None, "Name of a prepared dataset, as in ubc_phototour.")
    flags.DEFINE_string("config", None, "The dataset's config, as in notredame.")
    flags.DEFINE_string("source", None, "Photographs of photo_patches, a folder or glob.")
    flags.DEFINE_string("kind", None, "What they are: photos, aligned or sequences.")
    flags.DEFINE_string("data_dir", None, "Where the dataset is prepared; TFDS's default if unset.")
    flags.DEFINE_list("splits", ["train"], "Splits of the dataset.")
    flags.DEFINE_string("cache_dir", None, "Where to keep the dataset's patch groups.")
    flags.DEFINE_integer("size", 64, "Side of a patch of the dataset.", lower_bound=16)
    flags.DEFINE_string("output", None, "The picture to write, PNG.", required=True)
    flags.DEFINE_integer("rows", 16, "How many groups, chosen at random.", lower_bound=1)
    flags.DEFINE_integer("columns", 16, "At most so many patches a group.", lower_bound=1)
    flags.DEFINE_integer("zoom", 1, "Enlarges patches by a whole number.", lower_bound=1)
    flags.DEFINE_integer("seed", 0, "Chooses the groups.", lower_bound=0)


def _groups(options: flags.FlagValues) -> PatchGroups:
    if bool(options.groups) == bool(options.dataset):
        raise InputError("give either --groups=FOLDER or --dataset=NAME.")
    if options.groups:
        return PatchGroups.load(options.groups)
    if not options.cache_dir:
        raise InputError("--dataset wants --cache_dir=FOLDER too, to keep the patch groups in.")
    given = {name: options[name].value for name in ("config", "source", "kind", "data_dir")}
    dataset = builder(options.dataset, **{name: value for name, value in given.items() if value})
    return PatchGroups.from_tfds(dataset, options.splits, options.size, options.cache_dir)


def _main(_: Sequence[str]) -> None:
    options = flags.FLAGS
    output = pathlib.Path(options.output)
    if output.suffix.lower() != ".png":
        raise InputError(f"--output={output} must end in .png.")
    groups = _groups(options)
    count = min(options.rows, groups.group_count)
    chosen = np.random.default_rng(options.seed).choice(groups.group_count, count, replace=False)
    sheet = contact_sheet(groups, np.sort(chosen), options.columns, options.zoom)
    try:
        with files.write_atomically(output) as temporary:
            temporary.write_bytes(cv2.imencode(".png", sheet)[1].tobytes())
    except OSError as error:
        raise InputError(f"cannot write --output={output}: {error.strerror}.") from error
    print(f"{output}: {count} of {groups.group_count} groups, {len(groups)} patches in all")


if __name__ == "__main__":
    _define_flags()
    commands.run(_main)
