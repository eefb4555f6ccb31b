"""All patches of a dataset in one array, with the numbers of their groups, sequences, clusters."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import pathlib
import textwrap
from collections.abc import Sequence

import numpy as np
from absl import logging

from doap_tf.counts import count
from doap_tf.data import group_folder
from doap_tf.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PatchGroups:
    """P patches of S×S pixels in G groups; the patches of a group show the same place.

    A group of one patch is kept: it is a distractor, though no query.

    Attributes:
        patches: uint8 [P, S, S], memory-mapped where they were loaded from a folder.
        group: int32 [P], dense: every number from 0 to G − 1 occurs.
        sequence: int32 [P], one per group; −1 where there is none, and then all other groups are
            distractors.
        cluster: int32 [P], numbered within the sequence; −1 until labels are mined.
        sequence_names: The names of the sequences, by number.
        far_apart: bool [sequences, K, K], which clusters are distractors for each other; None
            until labels are mined.
        source: What the patches come from, for records.
        magnification: What they were cut at, or None if that is not known.
        directory: The folder they were loaded from, or None.

    Example:
        >>> groups = PatchGroups.from_arrays(np.zeros([6, 32, 32], "uint8"), [7, 7, 8, 8, 9, 9])
        >>> groups.labels([2, 3])
        array([[ 1, -1, -1],
               [ 1, -1, -1]], dtype=int32)
    """

    patches: np.ndarray
    group: np.ndarray
    sequence: np.ndarray
    cluster: np.ndarray
    sequence_names: tuple[str, ...] = ()
    far_apart: np.ndarray | None = None
    source: str = "arrays"
    magnification: float | None = None
    directory: pathlib.Path | None = None

    def __post_init__(self) -> None:
        shape = self.patches.shape
        if self.patches.dtype != np.uint8 or len(shape) != 3 or shape[1] != shape[2]:
            raise InputError(
                f"patches must be uint8 [P, S, S], not {self.patches.dtype} {list(shape)}."
            )
        if 0 in shape:
            raise InputError(f"there are no patches in {self.source}.")
        if not isinstance(self.source, str):
            raise InputError(f"source must be a text, not {self.source!r}.")
        cut_at = self.magnification
        if cut_at is not None and not (isinstance(cut_at, int | float) and 0 < cut_at < math.inf):
            raise InputError(f"magnification must be a number above 0, not {cut_at!r}.")
        for name in ("group", "sequence", "cluster"):
            numbers = getattr(self, name)
            if numbers.dtype != np.int32 or numbers.shape != shape[:1]:
                raise InputError(
                    f"{name} must be int32 [{shape[0]}], one number per patch, "
                    f"not {numbers.dtype} {list(numbers.shape)}."
                )
        if self.group.min() < 0 or not self.group_sizes.all():
            raise InputError("group numbers must be dense: every one from 0 to the largest.")
        _check_range("sequence", self.sequence, len(self.sequence_names))
        if (self.sequence != self.group_sequence[self.group]).any():
            raise InputError("all patches of a group must belong to the same sequence.")
        _check_range(
            "cluster", self.cluster, 0 if self.far_apart is None else self.far_apart.shape[-1]
        )

    @classmethod
    def from_arrays(
        cls,
        patches: np.ndarray,
        group: Sequence[int] | np.ndarray,
        sequence: Sequence[int] | np.ndarray | None = None,
        sequence_names: Sequence[str] = (),
        source: str = "arrays",
        magnification: float | None = None,
    ) -> PatchGroups:
        """Returns groups of arrays in memory.

        Args:
            patches: uint8 [P, S, S].
            group: Integers [P], not necessarily dense: they are renumbered in their order.
            sequence: Integers [P] below len(sequence_names), −1 for none; None if there are none.
            sequence_names: One name per sequence.
            source: What the patches come from, for records.
            magnification: What they were cut at, or None if that is not known.
        """
        group = np.unique(np.asarray(group), return_inverse=True)[1].astype(np.int32)
        none = np.full(len(patches), -1, np.int32)
        sequence = none if sequence is None else np.asarray(sequence)
        if sequence.dtype.kind not in "iu":
            raise InputError(f"sequence must be integers, not {sequence.dtype}.")
        _check_range("sequence", sequence, len(sequence_names))
        return cls(
            patches=np.asarray(patches),
            group=group,
            sequence=sequence.astype(np.int32),
            cluster=none,
            sequence_names=tuple(sequence_names),
            source=source,
            magnification=None if magnification is None else float(magnification),
        )

    @classmethod
    def load(cls, directory: str | os.PathLike) -> PatchGroups:
        """Maps the groups of a folder; patches are read when they are used."""
        directory = pathlib.Path(directory)
        with group_folder.named_in_errors(directory):
            return cls(**group_folder.read_group_folder(directory))

    @classmethod
    def concatenate(cls, parts: Sequence[PatchGroups]) -> PatchGroups:
        """Joins several datasets in memory, their rows one after the other.

        Groups and sequences are renumbered. A part without mined labels gets an empty table: none
        of its clusters are far apart. Where magnifications differ, or one is not known, that of the
        result is None.
        """
        sizes = {part.size for part in parts}
        if len(sizes) != 1:
            raise InputError(
                f"patches of different sizes cannot be joined: {sorted(sizes)} pixels."
            )
        magnifications = {part.magnification for part in parts}
        first_group = _offsets([part.group_count for part in parts])
        first_sequence = _offsets([len(part.sequence_names) for part in parts])
        tables = [
            np.zeros([len(part.sequence_names), 0, 0], bool)
            if part.far_apart is None
            else part.far_apart
            for part in parts
        ]
        clusters = max(table.shape[-1] for table in tables)
        room = ((0, clusters - table.shape[-1]) for table in tables)
        tables = [np.pad(table, [(0, 0), r, r]) for table, r in zip(tables, room, strict=True)]
        return cls(
            patches=np.concatenate([part.patches for part in parts]),
            group=np.concatenate(
                [part.group + first for part, first in zip(parts, first_group, strict=True)]
            ),
            sequence=np.concatenate(
                [
                    np.where(part.sequence < 0, part.sequence, part.sequence + first)
                    for part, first in zip(parts, first_sequence, strict=True)
                ]
            ),
            cluster=np.concatenate([part.cluster for part in parts]),
            sequence_names=sum((part.sequence_names for part in parts), ()),
            far_apart=np.concatenate(tables) if clusters else None,
            source=" + ".join(part.source for part in parts),
            magnification=magnifications.pop() if len(magnifications) == 1 else None,
        )

    def save(self, directory: str | os.PathLike) -> PatchGroups:
        """Writes a folder that `load` reads, whole or not at all; returns what `load` returns."""
        directory = pathlib.Path(directory)
        with group_folder.open_group_folder(directory) as folder:
            np.save(folder / group_folder.PATCHES_FILE, self.patches)
            group_folder.write_tables(
                folder,
                self.group,
                self.sequence,
                self.sequence_names,
                self.source,
                self.magnification,
            )
            if self.far_apart is not None:
                mined = folder / group_folder.MINED_FILE
                group_folder.write_mined_labels(mined, self.cluster, self.far_apart)
        return PatchGroups.load(directory)

    def __repr__(self) -> str:
        patches, groups = count(len(self), "patch"), count(self.group_count, "group")
        source = textwrap.shorten(self.source, 50, placeholder=" …")
        return f"PatchGroups({source}: {patches} of {self.size}×{self.size} in {groups})"

    def __len__(self) -> int:
        return len(self.patches)

    @property
    def size(self) -> int:
        """Side S of a patch."""
        return self.patches.shape[1]

    @property
    def group_count(self) -> int:
        """Number G of groups."""
        return len(self.group_sizes)

    @functools.cached_property
    def group_sizes(self) -> np.ndarray:
        """Number of patches in each group, int [G]."""
        return np.bincount(self.group)

    @functools.cached_property
    def group_sequence(self) -> np.ndarray:
        """Sequence of each group, int32 [G]."""
        sequence = np.empty(self.group_count, np.int32)
        sequence[self.group] = self.sequence
        return sequence

    @functools.cached_property
    def rows_by_group(self) -> np.ndarray:
        """All rows, those of group 0 first, int32 [P]."""
        return np.argsort(self.group, kind="stable").astype(np.int32)

    @functools.cached_property
    def group_starts(self) -> np.ndarray:
        """Index of the first row of each group in `rows_by_group`, int [G]."""
        return _offsets(self.group_sizes)

    @functools.cached_property
    def groups_by_sequence(self) -> dict[int, np.ndarray]:
        """Groups of each sequence that has any, int [n] by sequence number."""
        order = np.argsort(self.group_sequence, kind="stable")
        sequences, starts = np.unique(self.group_sequence[order], return_index=True)
        members = np.split(order, starts[1:])
        return {int(s): m for s, m in zip(sequences, members, strict=True) if s >= 0}

    @functools.cached_property
    def label_table(self) -> np.ndarray:
        """Group, sequence and cluster of every patch, int32 [P, 3]."""
        return np.stack([self.group, self.sequence, self.cluster], axis=1)

    def labels(self, rows: Sequence[int] | np.ndarray) -> np.ndarray:
        """Returns group, sequence and cluster of the patches in some rows, int32 [M, 3]."""
        return self.label_table[np.asarray(rows)]

    def rows_of(self, group: int) -> np.ndarray:
        """Returns the rows of one group's patches, int32 [n]."""
        start = self.group_starts[group]
        return self.rows_by_group[start : start + self.group_sizes[group]]

    def subset(self, rows: np.ndarray) -> PatchGroups:
        """Returns some rows, copied into memory; groups and sequences are renumbered."""
        used = np.unique(self.sequence[rows])
        used = used[used >= 0]
        number = np.full(len(self.sequence_names) + 1, -1, np.int32)
        number[used] = np.arange(len(used))
        return PatchGroups(
            patches=np.asarray(self.patches[rows]),
            group=np.unique(self.group[rows], return_inverse=True)[1].astype(np.int32),
            sequence=number[self.sequence[rows]],  # −1 reads the last entry, which stays −1
            cluster=self.cluster[rows],
            sequence_names=tuple(self.sequence_names[s] for s in used),
            far_apart=None if self.far_apart is None else self.far_apart[used],
            source=self.source,
            magnification=self.magnification,
        )

    def hold_out(self, fraction: float, seed: int) -> tuple[PatchGroups, PatchGroups]:
        """Splits by sequence where there are at least two, so that no image is in both results.

        Otherwise it splits by group, with a warning. Arguments and results are those of `split`.
        """
        if len(self.groups_by_sequence) > 1:
            return self.split(fraction, seed, by="sequence")
        logging.warning(
            "%s has fewer than two sequences: validation groups are held out one by one, and may "
            "show images that are trained on.",
            self.source,
        )
        return self.split(fraction, seed)

    def split(
        self, fraction: float, seed: int, by: str = "group"
    ) -> tuple[PatchGroups, PatchGroups]:
        """Splits the groups at random into some for training and some for validation.

        Args:
            fraction: Share of the groups or sequences for validation, above 0 and below 1; each
                result gets at least one.
            seed: Of the random choice.
            by: "group", or "sequence" to keep the patches of a sequence together; a group without
                one then counts as a sequence.

        Returns:
            (training, validation)
        """
        if not 0 < fraction < 1:
            raise InputError(f"the fraction for validation must be in (0, 1), not {fraction}.")
        unit = self.group
        if by == "sequence":
            first = len(self.sequence_names)
            unit = np.where(self.sequence < 0, self.group + first, self.sequence)
        units = np.unique(unit)
        if len(units) < 2:
            raise InputError(f"{self.source} has a single {by}: a split requires two.")
        count = min(max(round(fraction * len(units)), 1), len(units) - 1)
        chosen = np.random.default_rng(seed).permutation(units)[:count]
        validation = np.isin(unit, chosen)
        return self.subset(np.flatnonzero(~validation)), self.subset(np.flatnonzero(validation))

    def content_hash(self) -> str:
        """Returns the SHA-256 of patches, labels and tables."""
        return self._sha256

    @functools.cached_property
    def _sha256(self) -> str:
        digest = hashlib.sha256(json.dumps(self.sequence_names).encode())
        digest.update(self.label_table.tobytes())
        if self.far_apart is not None:
            digest.update(self.far_apart.tobytes())
        block = max(1, 2**24 // self.size**2)
        for start in range(0, len(self), block):
            digest.update(self.patches[start : start + block].tobytes())
        return digest.hexdigest()


def _offsets(counts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns the start of each of consecutive runs of these lengths, int32."""
    return (np.cumsum(counts) - counts).astype(np.int32)


def _check_range(name: str, numbers: np.ndarray, limit: int) -> None:
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=-1))
    if low < -1 or high >= limit:
        raise InputError(f"{name} numbers must lie in [-1, {limit - 1}], not in [{low}, {high}].")
