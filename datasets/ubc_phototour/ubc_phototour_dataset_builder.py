"""UBC PhotoTour: patches grouped by the 3D point that they show, and the verification pairs."""

import pathlib
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds
from absl import logging

from doap_tf.datasets.source_builder import SourceBuilder
from doap_tf.errors import InputError
from doap_tf.readers import mosaics, original_files

_PATCHES = {"liberty": 450_092, "notredame": 468_159, "yosemite": 633_587}
_PAIRS = 100_000
_PAIRS_SUFFIX = "_pairs"
_MIRRORS = (
    "https://cmp.felk.cvut.cz/~mishkdmy/datasets/BrownPhotoTour/",
    "http://icvl.ee.ic.ac.uk/vbalnt/",
)


def _log_unless_official(what: str, count: int, official: int) -> None:
    if count != official:
        logging.warning("%s: %d found, the official set has %d", what, count, official)


class Builder(SourceBuilder):
    """UBC PhotoTour, one config per scene and one per scene's pairs."""

    OPTIONS = ("source", "config")
    magnification = 6.0
    VERSION = tfds.core.Version("1.1.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "1.1.0": "Points and pairs in the order of the files.",
        "1.0.0": "Initial release.",
    }
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name=scene + suffix, description=f"{examples} of {scene}")
        for suffix, examples in (("", "3D points"), (_PAIRS_SUFFIX, "verification pairs"))
        for scene in _PATCHES
    ]

    @property
    def _scene(self) -> str:
        return self.builder_config.name.removesuffix(_PAIRS_SUFFIX)

    @property
    def _of_pairs(self) -> bool:
        return self.builder_config.name.endswith(_PAIRS_SUFFIX)

    def _info(self) -> tfds.core.DatasetInfo:
        length = 2 if self._of_pairs else None
        features: dict[str, Any] = {"point_id": np.int64}
        if self._of_pairs:
            point_ids = tfds.features.Tensor(shape=(2,), dtype=np.int64)
            features = {"point_ids": point_ids, "match": np.bool_}
        patch_ids = tfds.features.Tensor(shape=(length,), dtype=np.int64)
        return self._group_info(length, mosaics.PATCH, patch_ids=patch_ids, **features)

    def _original(self) -> original_files.Original:
        name = f"{self._scene}.zip"
        others = _PATCHES.keys() - {self._scene}
        return original_files.Original(
            files={name: [mirror + name for mirror in _MIRRORS]},
            folder=self._scene,
            holds=lambda folder: folder.name not in others and any(folder.glob("patches[0-9]*.*")),
        )

    def _splits(self, folder: pathlib.Path) -> dict[str, Iterator]:
        return {"test" if self._of_pairs else "train": self._generate_examples(folder)}

    def _generate_examples(self, folder: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        patches = len(mosaics.read_point_ids(folder))
        for scene, official in _PATCHES.items():
            if patches == official and scene != self._scene:
                raise InputError(
                    f"{folder} has {patches:,} patches, as {scene} has; give the config {scene!r} "
                    f"or the folder of {self._scene}"
                )
        _log_unless_official(f"patches of {self._scene}", patches, _PATCHES[self._scene])
        return self._generate_pairs(folder) if self._of_pairs else self._generate_groups(folder)

    def _generate_groups(self, folder: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        for group in mosaics.iterate_groups(folder):
            yield (
                group.point_id,
                {
                    "patches": group.patches[..., np.newaxis],
                    "patch_ids": group.patch_ids,
                    "point_id": group.point_id,
                },
            )

    def _generate_pairs(self, folder: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
        pairs = mosaics.read_pairs(folder)
        _log_unless_official(f"pairs of {self._scene}", len(pairs.patch_ids), _PAIRS)
        # At most two patches per pair: 0.8 GB for the official list.
        ids, rows = np.unique(pairs.patch_ids, return_inverse=True)
        patches = mosaics.read_patches(folder, ids)[..., np.newaxis]
        for index, members in enumerate(rows.reshape(-1, 2)):
            yield (
                index,
                {
                    "patches": patches[members],
                    "patch_ids": pairs.patch_ids[index],
                    "point_ids": pairs.point_ids[index],
                    "match": bool(pairs.matches[index]),
                },
            )
