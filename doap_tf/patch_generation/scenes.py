"""The scenes that patch groups are cut from: photographs, aligned images, image sequences."""

import dataclasses
import glob
import hashlib
import importlib.resources
import os
import pathlib
from collections.abc import Iterable

from doap_tf.errors import InputError
from doap_tf.files import printable
from doap_tf.readers.image_sequences import list_image_sequences
from doap_tf.readers.images import IMAGE_SUFFIXES

KINDS = ("photos", "aligned", "sequences")

# The photographs among scikit-image's pictures, without the second view of the motorcycle. Two of
# them are held out.
_TRAIN_PHOTOGRAPHS = (
    "astronaut.png",
    "brick.png",
    "camera.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "motorcycle_left.png",
    "page.png",
    "rocket.jpg",
    "text.png",
)
_VALIDATION_PHOTOGRAPHS = ("chelsea.png", "coffee.png")


@dataclasses.dataclass(frozen=True)
class Scene:
    """One place that groups are cut from.

    Attributes:
        name: unique in its source.
        kind: `photos`: one photograph; other views of it are synthesised. `aligned`: images of one
            static camera. `sequences`: a folder of six images and five homographies, named as in
            Oxford's dataset or HPatches.
        files: the photograph, the aligned images, or all files of the sequence.
    """

    name: str
    kind: str
    files: tuple[pathlib.Path, ...]


def find_scenes(source: str | os.PathLike, kind: str = "photos") -> list[Scene]:
    """Returns the scenes of a folder or a glob, sorted by name.

    Args:
        source: a folder, searched recursively, or a glob of image files (of folders for
            `sequences`).
        kind: one of `KINDS`. Aligned images in the same folder are one scene.
    """
    if kind not in KINDS:
        raise InputError(f"unknown kind {kind!r}; known are {', '.join(KINDS)}.")
    source = os.path.expanduser(source)
    if kind == "sequences":
        return _sequences(source)
    root = pathlib.Path(_fixed_part(source))
    by_name: dict[str, list[pathlib.Path]] = {}
    for file in _image_files(source):
        member = file if kind == "photos" else file.parent
        name = member.relative_to(root).as_posix() if member != root else root.resolve().name
        by_name.setdefault(printable(name), []).append(file)
    return [Scene(name, kind, tuple(files)) for name, files in sorted(by_name.items())]


def default_scenes() -> tuple[list[Scene], list[Scene]]:
    """Returns the photographs that come with scikit-image: those to train on, and two held out."""
    folder = pathlib.Path(str(importlib.resources.files("skimage"))) / "data"
    train, validation = (
        [Scene(name, "photos", (folder / name,)) for name in names]
        for names in (_TRAIN_PHOTOGRAPHS, _VALIDATION_PHOTOGRAPHS)
    )
    return train, validation


def split_scenes(scenes: Iterable[Scene], fraction: float) -> tuple[list[Scene], list[Scene]]:
    """Splits scenes into those to train on and a fraction held out, chosen by hashes of names.

    Each list gets at least one of two or more scenes unless the fraction is zero. Both keep the
    order of `scenes`.
    """
    if not 0 <= fraction < 1:
        raise InputError(f"the fraction for validation must be in [0, 1), not {fraction}.")
    scenes = list(scenes)
    count = round(fraction * len(scenes))
    if fraction > 0:
        count = min(max(count, 1), len(scenes) - 1)
    ranked = sorted(
        scenes,
        key=lambda scene: hashlib.sha256(scene.name.encode()).digest(),
    )
    held_out = set(ranked[:count])
    train = [scene for scene in scenes if scene not in held_out]
    return train, [scene for scene in scenes if scene in held_out]


def _sequences(source: str) -> list[Scene]:
    if _is_glob(source):
        folders = sorted(path for path in map(pathlib.Path, glob.glob(source)) if path.is_dir())
    else:
        folders = list_image_sequences(source)
    files = [tuple(filter(pathlib.Path.is_file, sorted(path.iterdir()))) for path in folders]
    scenes = [
        Scene(printable(folder.name), "sequences", members)
        for folder, members in zip(folders, files, strict=True)
        if members
    ]
    if not scenes:
        raise InputError(f"no folder with files matches {source!r}.")
    return scenes


def _image_files(source: str) -> list[pathlib.Path]:
    if _is_glob(source):
        paths = [pathlib.Path(path) for path in glob.glob(source, recursive=True)]
    elif os.path.isdir(source):
        paths = list(pathlib.Path(source).rglob("*"))
    else:
        raise InputError(f"{source!r} is neither a folder nor a glob of images.")
    files = sorted(
        path for path in paths if path.suffix.lower() in IMAGE_SUFFIXES and not path.is_dir()
    )
    if not files:
        suffixes = ", ".join(sorted(IMAGE_SUFFIXES))
        raise InputError(f"{source!r} holds no images, which are files named {suffixes}.")
    return files


def _is_glob(source: str) -> bool:
    return glob.has_magic(source) and not os.path.isdir(source)


def _fixed_part(source: str) -> str:
    """Returns the folder that contains everything that a folder or glob names."""
    while _is_glob(source):
        source = os.path.dirname(source)
    return source or "."
