"""A folder of patch sequences in HPatches' layout."""

import functools
import os
import pathlib

import numpy as np
import PIL.Image

from doap_tf.errors import InputError
from doap_tf.files import contents_sha256
from doap_tf.readers import STRIPS, list_patch_sequences, read_strip
from doap_tf.readers.hpatches_splits import split_sequences
from doap_tf.readers.strips import PATCH

ALL = "all"
LEVELS = {"easy": "e", "hard": "h", "tough": "t"}
TARGETS = range(1, 6)


class PatchSequences:
    """The sequences of a folder that belong to a split, checked before anything is scored.

    Args:
        folder: Folder with one subfolder per sequence that holds `ref.png, e1.png, … t5.png`; or
            a single sequence.
        split: `a`, `b`, `c`, `illum`, `view` or `full`; or `all` for every sequence there is.
        name: Name of the benchmark on these patches.

    Attributes:
        lengths: Number of patches of each sequence to score, in the order of the split.
    """

    def __init__(self, folder: str | os.PathLike, split: str = ALL, *, name: str = "hpatches"):
        folder = pathlib.Path(folder)
        if not folder.is_dir():
            raise InputError(f"{folder} is not a folder of HPatches sequences.")
        single = (folder / f"{STRIPS[0]}.png").is_file()
        folders = [folder] if single else list_patch_sequences(folder)
        self._folders = {path.resolve().name: path for path in folders}
        self.name = name
        self.split = split
        names = list(self._folders) if split == ALL else split_sequences(split)
        missing = [name for name in names if name not in self._folders]
        if missing:
            raise InputError(
                f"{folder} lacks {len(missing)} of the {len(names)} sequences of split {split!r}, "
                f"such as {missing[0]}; score what is there with the split {ALL!r}."
            )
        self._contents: dict[pathlib.Path, str] = {}
        self.lengths = {name: self._checked_length(name) for name in names}

    @functools.cached_property
    def training(self) -> list[str]:
        """Names of the training sequences of the split; an InputError if some are missing."""
        if self.split == ALL:
            raise InputError(f"split {ALL!r} has no training sequences, which normalisation needs.")
        names = split_sequences(self.split, "train")
        missing = [name for name in names if name not in self._folders]
        if missing:
            raise InputError(
                f"normalisation needs the training sequences of split {self.split!r}; "
                f"{len(missing)} of {len(names)} are missing, such as {missing[0]}."
            )
        return names

    def path(self, sequence: str, strip: str) -> pathlib.Path:
        """Returns the file of a strip."""
        return self._folders[sequence] / f"{strip}.png"

    def patches(self, sequence: str, strip: str) -> np.ndarray:
        """Reads a strip of `STRIPS`: uint8 [N, 65, 65]."""
        return read_strip(self.path(sequence, strip))

    def content(self, sequence: str, strip: str) -> str:
        """Returns a hash of the file of a strip."""
        path = self.path(sequence, strip)
        if path not in self._contents:
            self._contents[path] = contents_sha256(path)
        return self._contents[path]

    def _checked_length(self, sequence: str) -> int:
        """Returns the number of patches of a sequence, which all of its strips must have."""
        lengths = {strip: _strip_length(self.path(sequence, strip)) for strip in STRIPS}
        for strip, length in lengths.items():
            if length != lengths["ref"]:
                raise InputError(
                    f"{self.path(sequence, strip)} has {length} patches, but ref.png has "
                    f"{lengths['ref']}; all strips of a sequence show the same patches."
                )
        return lengths["ref"]


def _strip_length(path: pathlib.Path) -> int:
    """Returns the number of patches of a strip, by the header of its file."""
    if not path.is_file():
        raise InputError(f"sequence {path.parent} lacks {path.name}; fetch it again.")
    try:
        with PIL.Image.open(path) as image:
            width, height = image.size
    except OSError as error:
        raise InputError(f"{path} cannot be read as an image: {error}.") from error
    if width != PATCH or height % PATCH:
        raise InputError(
            f"{path} is {width}×{height} pixels; a strip is {PATCH} wide and a multiple of {PATCH} "
            "tall."
        )
    return height // PATCH
