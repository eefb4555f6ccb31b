"""A folder of patch sequences in HPatches' layout, checked as a whole before anything is scored."""

import functools
import os
import pathlib

import numpy as np
import PIL.Image

from doap_tf.datasets.hpatches import split_sequences
from doap_tf.errors import InputError
from doap_tf.evaluation.descriptor_cache import file_hash
from doap_tf.readers import STRIPS, list_patch_sequences, read_strip

ALL = "all"
LEVELS = {"easy": "e", "hard": "h", "tough": "t"}
TARGETS = range(1, 6)


class PatchSequences:
    """The sequences of a folder that belong to a split.

    Args:
        folder: Holds a folder a sequence with `ref.png, e1.png, … t5.png`, or is one.
        split: `a`, `b`, `c`, `illum`, `view` or `full`; or `all` for every sequence there is.

    Attributes:
        lengths: Number of patches of each sequence to score, in the order of the split.
        training: Sequences of the split's training part; none for splits without.
    """

    def __init__(self, folder: str | os.PathLike, split: str = ALL):
        folder = pathlib.Path(folder)
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; wanted is one of HPatches sequences.")
        single = (folder / f"{STRIPS[0]}.png").is_file()
        found = [folder] if single else list_patch_sequences(folder)
        self._folders = {path.resolve().name: path for path in found}
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
        """The training sequences of the split."""
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
        """The file of a strip."""
        return self._folders[sequence] / f"{strip}.png"

    def patches(self, sequence: str, strip: str) -> np.ndarray:
        """uint8 [N, 65, 65] of a strip of `STRIPS`."""
        return read_strip(self.path(sequence, strip))

    def content(self, sequence: str, strip: str) -> str:
        """Identifies the patches of a strip."""
        path = self.path(sequence, strip)
        if path not in self._contents:
            self._contents[path] = file_hash(path)
        return self._contents[path]

    def _checked_length(self, sequence: str) -> int:
        """The number of patches of a sequence, from the sizes in its files' headers."""
        lengths = {}
        for strip in STRIPS:
            path = self.path(sequence, strip)
            if not path.is_file():
                raise InputError(f"sequence {path.parent} lacks {path.name}; fetch it again.")
            try:
                with PIL.Image.open(path) as image:
                    width, height = image.size
            except OSError as error:
                raise InputError(f"{path} cannot be read as an image: {error}.") from error
            if width != 65 or height == 0 or height % 65:
                raise InputError(
                    f"{path} is {width}×{height} pixels; a strip is 65 wide and a multiple of 65 "
                    "tall."
                )
            lengths[strip] = height // 65
        for strip, length in lengths.items():
            if length != lengths["ref"]:
                raise InputError(
                    f"{self.path(sequence, strip)} has {length} patches, but ref.png has "
                    f"{lengths['ref']}; all strips of a sequence show the same patches."
                )
        return lengths["ref"]
