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
    """Returns the subfolders that hold strips, sorted by name."""
    strips = (path for name in STRIPS for path in pathlib.Path(folder).glob(f"*/{name}.png"))
    sequences = sorted({path.parent for path in strips})
    if not sequences:
        raise InputError(f"{folder} holds no sequence folders with ref.png, e1.png, … t5.png")
    return sequences


def read_strip(path: str | os.PathLike) -> np.ndarray:
    """Reads the patches of one strip, top to bottom: uint8 [N, 65, 65]."""
    image = read_grey(path)
    height, width = image.shape
    if width != PATCH or height % PATCH:
        raise InputError(
            f"{path} is {width}×{height} pixels; a strip is 65 wide and a multiple of 65 tall. "
            "Fetch or unpack it again"
        )
    return image.reshape(-1, PATCH, PATCH)


def read_patch_sequence(folder: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the strips of one sequence by their names in `STRIPS`, each uint8 [N, 65, 65]."""
    paths = [pathlib.Path(folder) / f"{name}.png" for name in STRIPS]
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        raise InputError(f"sequence {folder} lacks {', '.join(missing)}; fetch or unpack it again")
    strips = dict(zip(STRIPS, map_ahead(read_strip, paths), strict=True))
    lengths = {name: len(strip) for name, strip in strips.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(
            f"the strips of {folder} have different numbers of patches: {lengths}; fetch or unpack "
            "them again"
        )
    return strips
