"""Patch groups of a prepared TFDS dataset: resized once, cached by content and settings."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from doap_tf.data import group_folder
from doap_tf.data.patch_groups import PatchGroups
from doap_tf.errors import InputError
from doap_tf.progress import progress

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


def groups_from_tfds(
    builder: tfds.core.DatasetBuilder,
    splits: str | Sequence[str],
    size: int,
    cache_dir: str | os.PathLike,
) -> PatchGroups:
    """Returns all groups of some splits at one size; a second call maps what the first one wrote.

    Args:
        builder: A prepared dataset with one group per example: "patches" uint8 [n, H, W, 1] and,
            if it knows sequences, their names in "sequence".
        splits: TFDS splits or read instructions, in the order of the result.
        size: Side S of the result. Resizing follows `preprocessing.resize_patches`, and rounds to
            8 bits.
        cache_dir: The groups go to a folder in here, named after dataset, size, and a hash of the
            records' checksums and of the settings: other data never reuse it.
    """
    splits = [splits] if isinstance(splits, str) else list(splits)
    _check_splits(builder, splits)
    key = _key(builder, splits, size)
    name = "-".join([*builder.info.full_name.split("/"), f"{size}px", key[:16]])
    directory = pathlib.Path(cache_dir) / name
    if not directory.exists():
        with group_folder.open_group_folder(directory) as folder:
            write_tfds_groups(builder, splits, size, folder)
    return PatchGroups.load(directory)


def write_tfds_groups(
    builder: tfds.core.DatasetBuilder, splits: Sequence[str], size: int, folder: pathlib.Path
) -> None:
    """Writes all groups of some splits to a folder that `open_group_folder` yields.

    The other arguments are those of `groups_from_tfds`.
    """
    _check_splits(builder, splits)
    names = "+".join(splits)
    names = names if len(names) < 60 else f"{names[:57]}..."  # HPatches has 116 splits
    details = getattr(builder, "details", "")
    group_folder.write_groups(
        folder,
        _resized_groups(builder, splits, size),
        size,
        source=f"{builder.info.full_name} {names} {details}".strip(),
        magnification=_magnification(builder),
    )


def _magnification(builder: tfds.core.DatasetBuilder) -> float | None:
    return getattr(builder, "magnification", None)


def check_features(builder: tfds.core.DatasetBuilder) -> None:
    """Raises an InputError unless the examples of a dataset are groups of patches."""
    if "patches" not in builder.info.features:
        raise InputError(f"the dataset {builder.info.full_name} does not hold groups of patches.")


def _check_splits(builder: tfds.core.DatasetBuilder, splits: Sequence[str]) -> None:
    check_features(builder)
    name, known = builder.info.full_name, builder.info.splits
    if not known:
        raise InputError(
            f"the dataset {name} is not prepared in {builder.data_path}: "
            "call its download_and_prepare() first."
        )
    for split in splits:
        try:
            count = known[split].num_examples
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{name} has no split {split!r}; it has {', '.join(sorted(known))}."
            ) from error
        if count == 0:
            raise InputError(f"the split {split!r} of {name} is empty.")


def _key(builder: tfds.core.DatasetBuilder, splits: Sequence[str], size: int) -> str:
    settings = [group_folder.FORMAT, builder.info.full_name, size, _magnification(builder)]
    digest = hashlib.sha256(json.dumps(settings).encode())
    for split in splits:
        for file in builder.info.splits[split].file_instructions:
            digest.update(json.dumps([file.skip, file.take]).encode())
            for checksum in _record_checksums(pathlib.Path(file.filename)):
                digest.update(checksum)
    return digest.hexdigest()


def _record_checksums(path: pathlib.Path) -> Iterator[bytes]:
    """Yields the checksums in a TFRecord file, which identify its content without reading it all.

    A record is its length (8 bytes), a checksum of that (4), the data, and their checksum (4).
    """
    with path.open("rb", buffering=0) as file:
        while header := file.read(12):
            if len(header) == 12:
                file.seek(struct.unpack_from("<Q", header)[0], os.SEEK_CUR)
            checksum = file.read(4)
            if len(checksum) < 4:
                raise InputError(f"{path} is truncated: prepare the dataset again.")
            yield checksum


def _resized_groups(
    builder: tfds.core.DatasetBuilder, splits: Sequence[str], size: int
) -> Iterator[tuple[np.ndarray, str | None]]:
    """Yields the patches uint8 [n, S, S] and the sequence of one group after the other."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    from doap_tf.preprocessing import resize_patches

    def resized(example: dict[str, Any]) -> tuple[Any, Any]:
        patches = tf.cast(tf.round(resize_patches(example["patches"], size)), tf.uint8)
        return patches[..., 0], example.get("sequence", "")

    in_order = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=1)
    has_sequences = "sequence" in builder.info.features
    count = sum(builder.info.splits[split].num_examples for split in splits)
    with progress(title=f"reading {builder.name}", total=count, unit="group") as bar:
        for split in splits:
            examples = builder.as_dataset(split=split, read_config=in_order)
            examples = examples.map(resized, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)
            for patches, sequence in examples.as_numpy_iterator():
                yield patches, sequence.decode() if has_sequences else None
                bar.update()
