"""Photo patches: groups cut HPatches-style from any photographs, webcams or image sequences."""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow_datasets.public_api as tfds

from doap_tf.appearance import preset
from doap_tf.counts import count
from doap_tf.datasets.source_builder import CutPatchesBuilder, hash_file
from doap_tf.errors import InputError
from doap_tf.patch_generation.groups import Groups, GroupSettings, generate_groups
from doap_tf.patch_generation.scenes import Scene, default_scenes, find_scenes, split_scenes
from doap_tf.readers.strips import STRIPS

_REMEDIES = {
    "photos": "Give a folder or a glob of photographs, or no source for those of scikit-image",
    "aligned": "Give a folder of folders, each with the images of one camera that does not move",
    "sequences": "Get Oxford's from https://www.robots.ox.ac.uk/~vgg/research/affine/",
}


class Builder(CutPatchesBuilder):
    """Photo patches; the config is named after a hash of images and settings.

    Args:
        source: a folder or glob of images; the photographs of scikit-image if not given.
        kind: how the images belong together: `photos`, `aligned` or `sequences`.
        settings: how groups are cut.
        validation_fraction: share of the scenes held out as the split `validation`, chosen by a
            hash of their names. Of scikit-image's photographs two are held out.
        parts: which of the splits `train` and `validation` are cut.
        processes: number of processes that cut patches; one per core if not given.
        beam_options: Apache Beam's options as on a command line, to let its workers cut patches;
            all of them must see the images and `data_dir` under the same paths.
        **kwargs: `data_dir` and `version` of every TFDS builder.
    """

    OPTIONS = (
        "source",
        "kind",
        "magnification",
        "max_groups",
        "max_overlap",
        "seed",
        "detector",
        "jitter",
        "appearance",
        "min_correlation",
        "oriented",
        "beam_options",
    )
    SETTINGS = GroupSettings
    VERSION = tfds.core.Version("1.1.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "1.1.0": "The same frames at any magnification; darker views.",
        "1.0.0": "Initial release.",
    }

    def __init__(
        self,
        *,
        source: str | os.PathLike | None = None,
        kind: str = "photos",
        settings: GroupSettings | None = None,
        validation_fraction: float = 0.1,
        parts: Sequence[str] = ("train", "validation"),
        processes: int | None = None,
        beam_options: str | None = None,
        config: None = None,
        **kwargs: Any,
    ):
        if config is not None:
            raise InputError(
                f"photo_patches has no config {config!r}: it is named after source and settings"
            )
        if source is None and kind != "photos":
            raise InputError(f"kind {kind!r} requires a source, a folder of images")
        self._settings = settings or GroupSettings()
        self._processes = processes
        self._beam_options = beam_options
        scenes = (
            default_scenes()
            if source is None
            else split_scenes(_find_scenes(source, kind), validation_fraction)
        )
        split = dict(zip(("train", "validation"), scenes, strict=True))
        self._scenes = {part: split[part] for part in parts if split[part]}
        if not self._scenes:
            raise InputError(
                f"{source} holds a single scene; at least two are required, one for validation"
            )
        self._hash = _hash_contents(self._scenes, self._settings)
        scenes = count(
            sum(map(len, self._scenes.values())),
            "photograph" if source is None else "scene",
        )
        origin = "scikit-image" if source is None else f"kind {kind}"
        super().__init__(
            source=source,
            config=tfds.core.BuilderConfig(
                name=f"{kind}_{self._hash[:16]}",
                description=f"{scenes} of {origin}, {self._settings.patch_size} pixels",
            ),
            **kwargs,
        )

    @classmethod
    def for_training(
        cls, *args: Any, appearance: str = "camera", **options: Any
    ) -> CutPatchesBuilder:
        """See the base class; `appearance` is the name of a preset."""
        return super().for_training(*args, appearance=preset(appearance), **options)

    def download_and_prepare(self, **kwargs: Any) -> None:
        """See the base class; what Beam's workers have finished is kept until all is prepared."""
        super().download_and_prepare(**kwargs)
        shutil.rmtree(self._shards, ignore_errors=True)

    @property
    def _shards(self) -> pathlib.Path:
        return pathlib.Path(self.data_dir_root).absolute() / f".{self.name}.{self._hash[:16]}"

    def _info(self) -> tfds.core.DatasetInfo:
        size = self._settings.patch_size
        return self._group_info(len(STRIPS), size, sequence=tfds.features.Text(), index=np.int64)

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Iterator]:
        self.info.metadata["fingerprint"] = self._hash
        return {part: self._generate_examples(part) for part in self._scenes}

    def _generate_examples(self, part: str) -> Iterator[tuple[int, dict[str, Any]]]:
        key = 0
        scenes, mapping = self._scenes[part], None
        if self._beam_options is not None:
            from doap_tf.beam import beam_map

            folder = str(self._shards / part)
            mapping = functools.partial(
                beam_map, result_type=Groups, options=self._beam_options, folder=folder
            )
            scenes = [_with_absolute_files(scene) for scene in scenes]
        for scene, groups in generate_groups(scenes, self._settings, self._processes, mapping):
            for index, patches in enumerate(groups.patches):
                yield (
                    key,
                    {"patches": patches[..., np.newaxis], "sequence": scene.name, "index": index},
                )
                key += 1


def _find_scenes(source: str | os.PathLike, kind: str) -> list[Scene]:
    try:
        return find_scenes(source, kind)
    except InputError as error:
        if kind not in _REMEDIES:
            raise
        raise InputError(f"{str(error).rstrip('.')}. {_REMEDIES[kind]}") from error


def _with_absolute_files(scene: Scene) -> Scene:
    return dataclasses.replace(scene, files=tuple(file.absolute() for file in scene.files))


def _hash_contents(scenes: dict[str, list[Scene]], settings: GroupSettings) -> str:
    values = dataclasses.asdict(settings)
    for name in ("appearance", "min_correlation", "oriented"):
        if getattr(settings, name) == getattr(GroupSettings, name):
            del values[name]  # groups that were cut before it could be chosen
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for split, members in scenes.items():
        for scene in members:
            for file in scene.files:
                digest.update(json.dumps([split, scene.name, scene.kind, file.name]).encode())
                digest.update(hash_file(file))
    return digest.hexdigest()
