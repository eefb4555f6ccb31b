"""Cuts patch groups for `train_main.py --groups`: `python -m doap_tf.data.prepare --help`."""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np
from absl import flags

from doap_tf import commands
from doap_tf.data import PatchGroups
from doap_tf.data.label_mining import MINED_SIZE, mine_labels
from doap_tf.data.patch_groups import write_groups, writing
from doap_tf.errors import InputError
from doap_tf.patch_generation.groups import GroupSettings, generate_groups
from doap_tf.patch_generation.scenes import KINDS, find_scenes
from doap_tf.readers.mosaics import iterate_groups

MOSAICS = "mosaics"
_BLOCK = 1024  # groups that are resized together


def prepare_groups(
    source: str | os.PathLike,
    kind: str,
    output: str | os.PathLike,
    settings: GroupSettings,
    label_mining: bool = False,
) -> PatchGroups:
    """Writes a folder of patch groups straight from images, without TFDS in between.

    Args:
        source: A folder or glob of images, or UBC PhotoTour's folder of mosaics.
        kind: How images belong together, see `find_scenes`; or `"mosaics"`.
        output: The folder to write, whole or not at all.
        settings: How groups are cut. Of mosaics only the size is used: their patches are cut
            already.
        label_mining: Whether to mine labels, in the same patches at 64×64, and keep them with the
            groups.
    """
    output = pathlib.Path(output)
    if output.exists():
        raise InputError(f"{output} exists already: remove it or choose another --output.")
    if kind not in (*KINDS, MOSAICS):
        raise InputError(f"--kind must be one of {', '.join([*KINDS, MOSAICS])}, not {kind!r}.")
    if label_mining and kind == MOSAICS:
        raise InputError("--label_mining wants groups of sequences, which mosaics do not have.")
    with writing(output) as folder:
        _write(folder, source, kind, settings)
        if label_mining:
            with tempfile.TemporaryDirectory(dir=folder) as originals:
                large = dataclasses.replace(settings, patch_size=MINED_SIZE)
                _write(pathlib.Path(originals), source, kind, large)
                mine_labels(PatchGroups.load(folder), lambda: PatchGroups.load(originals))
    return PatchGroups.load(output)


def _write(
    folder: pathlib.Path, source: str | os.PathLike, kind: str, settings: GroupSettings
) -> None:
    groups: Iterator[tuple[np.ndarray, str | None]]
    if kind == MOSAICS:
        groups = _mosaic_groups(pathlib.Path(source), settings.patch_size)
    else:
        groups = _cut_groups(source, kind, settings)
    name = f"{pathlib.Path(source).name} ({kind}, {settings})"
    magnification = None if kind == MOSAICS else settings.magnification
    write_groups(folder, groups, settings.patch_size, name, magnification)


def _cut_groups(
    source: str | os.PathLike, kind: str, settings: GroupSettings
) -> Iterator[tuple[np.ndarray, str | None]]:
    for scene, groups in generate_groups(find_scenes(source, kind), settings):
        for patches in groups.patches:
            yield patches, scene.name


def _mosaic_groups(folder: pathlib.Path, size: int) -> Iterator[tuple[np.ndarray, str | None]]:
    from doap_tf.preprocessing import resize_patches

    groups = iterate_groups(folder)
    while block := [group.patches for group in itertools.islice(groups, _BLOCK)]:
        resized = resize_patches(np.concatenate(block)[..., np.newaxis], size).numpy()
        rounded = np.rint(resized[..., 0]).astype(np.uint8)
        for patches in np.split(rounded, np.cumsum([len(group) for group in block])[:-1]):
            yield patches, None


def _define_flags() -> None:
    defaults = GroupSettings()
    flags.DEFINE_string("source", None, "Folder or glob of images, or folder of mosaics.")
    flags.DEFINE_string("kind", "photos", f"{', '.join(KINDS)}, or {MOSAICS} (UBC PhotoTour).")
    flags.DEFINE_string("output", None, "Folder to write the groups to.")
    flags.DEFINE_integer("size", 32, "Side of a patch: 32, or 42 with a spatial transformer.")
    flags.DEFINE_float(
        "magnification", defaults.magnification, "Half a patch's side over its frame's radius."
    )
    flags.DEFINE_integer("max_groups", defaults.max_groups, "At most so many groups an image.")
    flags.DEFINE_float("max_overlap", defaults.max_overlap, "Of two groups' patches.")
    flags.DEFINE_boolean("label_mining", False, "Mine labels and keep them with the groups.")
    flags.DEFINE_integer("seed", defaults.seed, "Of views, jitter and light.", lower_bound=0)
    flags.mark_flags_as_required(["source", "output"])


def _main(_: Sequence[str]) -> None:
    options = flags.FLAGS
    settings = GroupSettings(
        options.size, options.magnification, options.max_groups, options.max_overlap, options.seed
    )
    groups = prepare_groups(
        options.source, options.kind, options.output, settings, options.label_mining
    )
    print(
        f"{options.output}: {len(groups)} patches of {groups.size}×{groups.size} in "
        f"{groups.group_count} groups of {len(groups.sequence_names)} sequences"
    )


if __name__ == "__main__":
    _define_flags()
    commands.run(_main)
