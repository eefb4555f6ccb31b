"""HPatches' folder of patch sequences: sixteen strips of 65×65 patches each."""

import os
import pathlib

import numpy as np

from doap_tf.errors import InputError
from doap_tf.parallel import map_ahead
from doap_tf.readers.images import read_grey

PATCH = 65
STRIPS = ("ref", *(f"{level}{image}" for level in "eht" for image in range(1, 6)))


def list_patch_sequences(folder: str | os.PathLike) -> list[pathlib.Path]:
    """The subfolders that hold strips, sorted by name."""
    sequences = sorted(
        {path.parent for name in STRIPS for path in pathlib.Path(folder).glob(f"*/{name}.png")}
    )
    if not sequences:
        raise InputError(f"{folder} holds no sequence folders with ref.png, e1.png, … t5.png")
    return sequences


def read_strip(path: str | os.PathLike) -> np.ndarray:
    """The patches of one strip, top to bottom: uint8 [N, 65, 65]."""
    image = read_grey(path)
    height, width = image.shape
    if width != PATCH or height % PATCH:
        raise InputError(
            f"{path} is {width}×{height} pixels; a strip is 65 wide and a multiple of 65 tall"
        )
    return image.reshape(-1, PATCH, PATCH)


def read_patch_sequence(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """The strips of one sequence, all of the same length: name in `STRIPS` → uint8 [N, 65, 65]."""
    folder = pathlib.Path(folder)
    paths = [folder / f"{name}.png" for name in STRIPS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise InputError(f"sequence {folder} lacks {', '.join(missing)}; fetch or unpack it again")
    strips = dict(zip(STRIPS, map_ahead(read_strip, paths), strict=True))
    for name, strip in strips.items():
        if len(strip) != len(strips["ref"]):
            raise InputError(
                f"{folder / name}.png has {len(strip)} patches, but ref.png has "
                f"{len(strips['ref'])}; all strips of a sequence show the same patches"
            )
    return strips
