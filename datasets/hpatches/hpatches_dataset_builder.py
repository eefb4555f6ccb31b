"""HPatches: sixteen views of every patch position, a TFDS split for each sequence."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds

from doap_tf.datasets.hpatches.splits import ARCHIVE, read_instruction
from doap_tf.datasets.source_builder import SourceBuilder
from doap_tf.errors import InputError
from doap_tf.readers import original_files, strips


class Builder(SourceBuilder):
    """HPatches, one TFDS split per sequence; see `read_instruction` for the benchmark's splits.

    Args:
        split: the benchmark's split whose training sequences are trained on; `all` for all
            sequences that are there.
        **kwargs: those of `SourceBuilder`.
    """

    OPTIONS = ("source", "split")
    magnification = 5.0
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}

    def __init__(self, *, split: str = "a", **kwargs: Any):
        super().__init__(**kwargs)
        self._benchmark_split = split

    def part_splits(self, part: str) -> list[str]:
        if self._benchmark_split == "all":
            return sorted(self.info.splits)
        return read_instruction(self._benchmark_split, part, self).split("+")

    def _info(self) -> tfds.core.DatasetInfo:
        return self._group_info(
            len(strips.STRIPS),
            strips.PATCH,
            "https://github.com/hpatches/hpatches-dataset",
            sequence=tfds.features.Text(),
            index=np.int64,
        )

    def _original(self) -> original_files.Original:
        return original_files.Original(
            files={"hpatches-release.zip": [ARCHIVE]},
            folder="hpatches-release",
            holds=lambda folder: any(folder.glob("*/ref.png")),
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator]:
        sequences = strips.list_patch_sequences(folder)
        for sequence in sequences:
            if not re.fullmatch(r"\w+", sequence.name) or sequence.name == "all":
                raise InputError(
                    f"{sequence}: a sequence becomes a TFDS split, whose name has letters, digits "
                    "and underscores only and is not 'all'; rename the folder"
                )
        return {sequence.name: self._generate_examples(sequence) for sequence in sequences}

    def _generate_examples(self, folder: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        sequence = strips.read_patch_sequence(folder)
        for index, views in enumerate(zip(*sequence.values(), strict=True)):
            yield (
                index,
                {
                    "patches": np.stack(views)[..., np.newaxis],
                    "sequence": folder.name,
                    "index": index,
                },
            )
