"""Patch groups for training and validation, by the name of a dataset."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from doap_tf.data.builders import builder as make_builder
from doap_tf.data.label_mining import MINED_SIZE, mine_labels
from doap_tf.data.patch_groups import PatchGroups
from doap_tf.errors import InputError

if TYPE_CHECKING:
    import tensorflow_datasets as tfds

DATASETS = ("ubc_phototour", "hpatches", "rome_patches", "photo_patches")


class TrainingGroups(NamedTuple):
    """What a run learns from and what it chooses the best model by."""

    train: PatchGroups
    validation: PatchGroups


@dataclasses.dataclass(frozen=True)
class DatasetSource:
    """Where training patches come from.

    Attributes:
        dataset: One of `DATASETS`.
        config: UBC PhotoTour's scene.
        split: HPatches' benchmark split, of which the training part is taken; `"all"` takes all
            sequences that are there.
        source: Folder or archive with the original files, or photographs as a folder or glob.
            None: TFDS's manual folder and mirrors, or the photographs of scikit-image.
        kind: How photographs belong together: `"photos"`, `"aligned"` or `"sequences"`.
        magnification: Which patches are cut from photographs at.
        data_dir: Where TFDS keeps prepared datasets; None for its default.
        validation_fraction: Share of the groups (or sequences) held out for choosing the model.
        seed: Chooses them.
    """

    dataset: str
    config: str | None = None
    split: str = "a"
    source: str | None = None
    kind: str = "photos"
    magnification: float = 5.0
    data_dir: str | None = None
    validation_fraction: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise InputError(
                f"--dataset must be one of {', '.join(DATASETS)}, not {self.dataset!r}."
            )

    def load(self, size: int, label_mining: bool = False) -> TrainingGroups:
        """Prepares what is not prepared yet and gives the groups at a patch size."""
        builder = self._prepared()
        if self.dataset == "photo_patches":
            return TrainingGroups(
                _groups(builder, ["train"], size, label_mining),
                _groups(builder, ["validation"], size),
            )
        groups = _groups(builder, self._splits(builder), size, label_mining)
        by = "sequence" if groups.groups_by_sequence else "group"
        return TrainingGroups(*groups.split(self.validation_fraction, self.seed, by))

    def load_validation(self, size: int) -> PatchGroups:
        """Gives the validation groups of `load` alone, at another patch size."""
        if self.dataset == "photo_patches":
            return _groups(self._prepared(), ["validation"], size)
        return self.load(size).validation

    def _prepared(self) -> tfds.core.DatasetBuilder:
        arguments: dict[str, Any] = {"data_dir": self.data_dir}
        if self.source:
            arguments["source"] = self.source
        if self.dataset == "ubc_phototour":
            arguments["config"] = self.config
        if self.dataset == "photo_patches":
            from doap_tf.patch_generation.groups import GroupSettings

            arguments["kind"] = self.kind
            arguments["settings"] = GroupSettings(magnification=self.magnification)
            arguments["validation_fraction"] = self.validation_fraction
        builder = make_builder(self.dataset, **arguments)
        builder.download_and_prepare()
        if self.dataset == "photo_patches" and "validation" not in builder.info.splits:
            raise InputError(
                f"{self.source} holds too few images to keep one for validation: "
                "add images or raise --validation_fraction."
            )
        return builder

    def _splits(self, builder: tfds.core.DatasetBuilder) -> Sequence[str]:
        if self.dataset != "hpatches":
            return ["train"]
        if self.split == "all":
            return sorted(builder.info.splits)
        from doap_tf.datasets.hpatches.splits import read_instruction

        return read_instruction(self.split, "train", builder).split("+")


def _groups(
    builder: tfds.core.DatasetBuilder, splits: Sequence[str], size: int, label_mining: bool = False
) -> PatchGroups:
    cache = pathlib.Path(builder.data_dir_root) / "patch_groups"
    groups = PatchGroups.from_tfds(builder, splits, size, cache)
    if not label_mining:
        return groups
    return mine_labels(groups, lambda: PatchGroups.from_tfds(builder, splits, MINED_SIZE, cache))
