"""Writing groups of patches as HPatches' strips, for programs that read that benchmark."""

import os
import pathlib
import re
from collections.abc import Iterable

import cv2

from doap_tf.errors import InputError
from doap_tf.files import write_directory_atomically
from doap_tf.patch_generation.frame_jitter import HPATCHES_MAGNIFICATION
from doap_tf.patch_generation.groups import GroupSettings, generate_groups
from doap_tf.patch_generation.scenes import Scene
from doap_tf.readers.strips import PATCH, STRIPS


def write_strips(
    scenes: Iterable[Scene],
    folder: str | os.PathLike,
    settings: GroupSettings | None = None,
    processes: int | None = None,
) -> list[pathlib.Path]:
    """Writes one folder per scene with ref.png, e1.png … t5.png, 65 wide and 65·n tall.

    Folders are named like HPatches': `i_…` for aligned images, which differ in illumination only,
    `v_…` for the others; letters, digits and underscores. Existing folders of the same name are
    replaced.

    Returns:
        The folders written, in the order of the scenes.
    """
    settings = settings or GroupSettings(magnification=HPATCHES_MAGNIFICATION)
    if settings.patch_size != PATCH:
        raise InputError(f"patch_size is {settings.patch_size}; strips have patches of {PATCH}")
    scenes = list(scenes)
    names = {scene: _sequence_name(scene) for scene in scenes}
    if len(set(names.values())) < len(names):
        twice = next(name for name in names.values() if list(names.values()).count(name) > 1)
        raise InputError(f"two scenes would be written as {twice}; rename one of them")
    written = []
    for scene, groups in generate_groups(scenes, settings, processes):
        path = pathlib.Path(folder) / names[scene]
        with write_directory_atomically(path) as temporary:
            for view, strip in enumerate(STRIPS):
                column = groups.patches[:, view].reshape(-1, PATCH)
                # Unlike cv2.imwrite, this reports a full disk.
                encoded = cv2.imencode(".png", column)[1].tobytes()
                (temporary / f"{strip}.png").write_bytes(encoded)
        written.append(path)
    return written


def _sequence_name(scene: Scene) -> str:
    name = scene.name if scene.kind != "photos" else os.path.splitext(scene.name)[0]
    name = re.sub(r"\W+", "_", name)
    if name.startswith(("i_", "v_")):
        return name
    return ("i_" if scene.kind == "aligned" else "v_") + name
