"""COLMAP patches: groups cut from the images of a reconstruction, one per 3D point."""

import dataclasses
import hashlib
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds

from doap_tf.datasets.source_builder import CutPatchesBuilder, hash_file
from doap_tf.errors import InputError
from doap_tf.patch_generation.colmap_groups import (
    PointSettings,
    Views,
    cut_views,
    find_views,
    split_views,
)
from doap_tf.readers.colmap_model import Model, find_model, model_files, read_model

_PARTS = ("train", "validation")


class Builder(CutPatchesBuilder):
    """COLMAP patches; the config is named after a hash of model, images and settings.

    Args:
        source: a folder with `images` and `sparse`, or a model's own folder; TFDS's manual folder
            if not given.
        config: where patches are cut, `observed` or `projected`.
        settings: how groups are cut; the config decides on their place.
        validation_fraction: share of the points held out as the split `validation`, with their
            reference images; see `doap_tf.patch_generation.colmap_groups.split_views`.
        parts: which of the splits `train` and `validation` are cut.
        processes: number of processes that cut patches; one per core if not given.
        **kwargs: `data_dir` and `version` of every TFDS builder.
    """

    OPTIONS = (
        "source",
        "config",
        "magnification",
        "max_overlap",
        "min_track",
        "max_error",
        "max_views",
    )
    SETTINGS = PointSettings
    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}
    BUILDER_CONFIGS: ClassVar[list[tfds.core.BuilderConfig]] = [
        tfds.core.BuilderConfig(name="observed", description="patches at observed keypoints"),
        tfds.core.BuilderConfig(name="projected", description="patches at projected points"),
    ]
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Put images/ and sparse/0/ of COLMAP into the manual folder."

    def __init__(
        self,
        *,
        source: str | os.PathLike | None = None,
        config: str | None = None,
        settings: PointSettings | None = None,
        validation_fraction: float = 0.1,
        parts: Sequence[str] = _PARTS,
        processes: int | None = None,
        **kwargs: Any,
    ):
        known = {known.name: known for known in self.BUILDER_CONFIGS}
        place = config or "observed"
        if place not in known:
            raise InputError(
                f"unknown config {place!r} of colmap_patches; known are {', '.join(known)}"
            )
        self._settings = dataclasses.replace(settings or PointSettings(), place=place)
        self._fraction = validation_fraction
        self._parts = tuple(parts)
        self._processes = processes
        self._hash = self._hash_contents(None if source is None else pathlib.Path(source))
        super().__init__(
            source=source,
            config=dataclasses.replace(known[place], name=f"{place}_{self._hash[:16]}"),
            **kwargs,
        )

    @classmethod
    def for_training(cls, *args: Any, **options: Any) -> CutPatchesBuilder:
        """See the base class."""
        if options.get("source") is None:
            raise InputError(
                "colmap_patches requires a source, a folder with images/ and sparse/0/ of COLMAP"
            )
        return super().for_training(*args, **options)

    def _info(self) -> tfds.core.DatasetInfo:
        return self._group_info(
            None,
            self._settings.patch_size,
            images=tfds.features.Sequence(tfds.features.Text()),
            sequence=tfds.features.Text(),
            point_id=np.int64,
        )

    def _hash_contents(self, source: pathlib.Path | None) -> str:
        settings = [dataclasses.asdict(self._settings), self._fraction, self._parts]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        if source is not None:
            folder, images = find_model(source.expanduser())
            model = read_model(folder, images)
            for file in (*model_files(folder), *(image.path for image in model.images)):
                digest.update(hash_file(file))
        return digest.hexdigest()

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        self.info.metadata["fingerprint"] = self._hash
        model = read_model(*find_model(self._source or dl_manager.manual_dir))
        views = find_views(model, self._settings, self._processes)
        split = dict(zip(_PARTS, split_views(views, self._fraction), strict=True))
        return {
            part: self._generate_examples(model, split[part])
            for part in self._parts
            if len(split[part].point)
        }

    def _generate_examples(
        self, model: Model, views: Views
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        for group in cut_views(model, views, self._settings, self._scratch, self._processes):
            yield (
                group.point,
                {
                    "patches": group.patches[..., np.newaxis],
                    "images": group.images,
                    "sequence": group.images[0],
                    "point_id": group.point,
                },
            )
