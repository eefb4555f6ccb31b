"""Patch sequences in HPatches' layout, cut from any images."""

import dataclasses
import hashlib
import os
import pathlib

from doap_tf.evaluation.hpatches.patch_sequences import PatchSequences
from doap_tf.files import contents_sha256, write_directory_atomically
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION
from doap_tf.patch_generation.groups import GroupSettings
from doap_tf.patch_generation.scenes import default_scenes, find_scenes
from doap_tf.patch_generation.strip_writer import write_strips
from doap_tf.version import __version__


def photo_sequences(
    source: str | os.PathLike | None, cache_dir: str | os.PathLike, kind: str = "photos"
) -> PatchSequences:
    """Cuts patch sequences as the dataset `photo_patches` does, once for the same images.

    Args:
        source: A folder or glob of images; by default the photographs of scikit-image that
            `photo_patches` holds out.
        cache_dir: Folder for the strips.
        kind: How the images belong together, see `doap_tf.patch_generation.scenes.find_scenes`.

    Returns:
        Sequences of the name "photos".
    """
    scenes = default_scenes()[1] if source is None else find_scenes(source, kind)
    settings = GroupSettings(magnification=HPATCHES_MAGNIFICATION)
    # Versions of the package may cut different patches from the same images.
    digest = hashlib.sha256(f"{__version__} {dataclasses.astuple(settings)}".encode())
    for scene in scenes:
        digest.update(f"{scene.kind} {scene.name}".encode())
        digest.update("".join(map(contents_sha256, scene.files)).encode())
    folder = pathlib.Path(cache_dir) / "photos" / digest.hexdigest()
    if not folder.is_dir():
        with write_directory_atomically(folder) as partial:
            write_strips(scenes, partial, settings)
    return PatchSequences(folder, name="photos")
