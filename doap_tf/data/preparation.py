"""From the name of a dataset to its patch groups: prepared by TFDS, then resized or cut to size."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from doap_tf.data.builders import builder_class
from doap_tf.data.group_folder import open_group_folder
from doap_tf.data.label_mining import MINED_SIZE, mine_labels
from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.tfds_groups import check_features, groups_from_tfds, write_tfds_groups
from doap_tf.errors import InputError

if TYPE_CHECKING:
    import tensorflow_datasets as tfds


class TrainingGroups(NamedTuple):
    """The groups that a run trains on, and those, if any, that its best model is chosen by."""

    train: PatchGroups
    validation: PatchGroups | None


@dataclasses.dataclass(frozen=True)
class DatasetSource:
    """A dataset by name, with the options of its builder.

    Published patches are resized to the size that is asked for; photographs are cut at it.

    Attributes:
        dataset: One of `builder_names()`.
        options: Those that the builder names in `OPTIONS`, such as `source`, the folder or archive
            with the original files, or photographs as a folder or glob. Without a source, files
            come from TFDS's manual folder and mirrors, photographs from scikit-image.
        data_dir: Where TFDS keeps prepared datasets; None for its default.
        validation_fraction: Share of the sequences held out for validation, or of the groups, see
            `PatchGroups.hold_out`; 0 to train on everything. Two photographs of scikit-image are
            never trained on.
        seed: Chooses what is held out.
    """

    dataset: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data_dir: str | os.PathLike | None = None
    validation_fraction: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        allowed = builder_class(self.dataset).OPTIONS
        for name in self.options:
            if name not in allowed:
                raise InputError(
                    f"{name} is not an option of {self.dataset}, which has {', '.join(allowed)}."
                )

    def load(self, size: int, label_mining: bool = False) -> TrainingGroups:
        """Prepares what is not prepared yet and returns the groups at a patch size."""
        has_validation = builder_class(self.dataset).HAS_VALIDATION
        wanted = self.validation_fraction != 0
        validation = self._groups("validation", size) if wanted and has_validation else None
        train = self._groups("train", size)
        if label_mining:
            train = mine_labels(train, lambda: self._groups("train", MINED_SIZE))
        if has_validation or not wanted:
            return TrainingGroups(train, validation)
        return TrainingGroups(*train.hold_out(self.validation_fraction, self.seed))

    def load_validation(self, size: int) -> PatchGroups | None:
        """Returns the validation groups of `load` alone, at another patch size."""
        if self.validation_fraction != 0 and builder_class(self.dataset).HAS_VALIDATION:
            return self._groups("validation", size)
        return self.load(size).validation

    def write(
        self, directory: str | os.PathLike, size: int, label_mining: bool = False
    ) -> PatchGroups:
        """Writes all groups to train on to a new folder, whole or not at all; none are held out.

        Args:
            directory: The folder, which must not exist.
            size: Side of the patches.
            label_mining: Whether to mine labels, in the same patches at 64×64, and keep them with
                the groups.
        """
        if os.path.exists(directory):
            raise InputError(f"{directory} exists already: remove it or choose another folder.")
        everything = dataclasses.replace(self, validation_fraction=0.0)
        builder = everything._prepared("train", size)
        with open_group_folder(pathlib.Path(directory)) as folder:
            write_tfds_groups(builder, builder.part_splits("train"), size, folder)
            if label_mining:
                mine_labels(
                    PatchGroups.load(folder), lambda: everything._groups("train", MINED_SIZE)
                )
        return PatchGroups.load(directory)

    def _groups(self, part: str, size: int) -> PatchGroups:
        builder = self._prepared(part, size)
        cache = pathlib.Path(builder.data_dir_root) / "patch_groups"
        return groups_from_tfds(builder, builder.part_splits(part), size, cache)

    def _prepared(self, part: str, size: int) -> Any:
        builder: tfds.core.DatasetBuilder = builder_class(self.dataset).for_training(
            part, size, self.validation_fraction, data_dir=self.data_dir, **self.options
        )
        check_features(builder)
        builder.download_and_prepare()
        return builder
