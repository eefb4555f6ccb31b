"""RomePatches: groups of ten patches that show the same place."""

import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds
from absl import logging

from doap_tf.datasets.source_builder import SourceBuilder
from doap_tf.errors import InputError
from doap_tf.readers import original_files, rome_patches

_MIRROR = "http://pascal.inrialpes.fr/data2/paulin/RomePatches/"
_GROUPS = 1_000
_FILES = tuple(name for half in rome_patches.HALVES for name in rome_patches.file_names(half))


def _missing(folder: pathlib.Path) -> list[str]:
    return [name for name in _FILES if not (folder / name).is_file()]


class Builder(SourceBuilder):
    """RomePatches, train and test."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}

    def _info(self) -> tfds.core.DatasetInfo:
        homepage = "http://lear.inrialpes.fr/people/paulin/projects/RomePatches/"
        return self._group_info(rome_patches.GROUP, rome_patches.PATCH, homepage, group=np.int64)

    def _original(self) -> original_files.Original:
        return original_files.Original(
            files={name: [_MIRROR + name] for name in _FILES},
            folder="RomePatches",
            holds=lambda folder: len(_missing(folder)) < len(_FILES),
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator]:
        if missing := _missing(folder):
            raise InputError(
                f"{folder} lacks {', '.join(missing)}; download {_MIRROR}{missing[0]}"
                f"{' and the others' if missing[1:] else ''} into it"
            )
        return {half: self._generate_examples(folder, half) for half in rome_patches.HALVES}

    def _generate_examples(
        self, folder: pathlib.Path, half: str
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        groups, labels = rome_patches.read_rome_half(folder, half)
        if len(groups) != _GROUPS:
            logging.warning(
                "groups of Rome %s: %d found, officially %d", half, len(groups), _GROUPS
            )
        for index, (patches, label) in enumerate(zip(groups, labels, strict=True)):
            yield index, {"patches": patches[..., np.newaxis], "group": label}
