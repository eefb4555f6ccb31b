"""What a long matching run has finished, kept so that a crash costs only the work in hand."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from doap_tf.errors import InputError
from doap_tf.matching.image_features import Features

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS images (
    name TEXT PRIMARY KEY, sha256 TEXT NOT NULL, features BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pairs (
    name1 TEXT NOT NULL, name2 TEXT NOT NULL, matches BLOB NOT NULL, PRIMARY KEY (name1, name2));
"""


class StoredMatches(NamedTuple):
    """The matches of a pair, without the features.

    Attributes:
        indices: int64 [M, 2].
        scores: float32 [M], the cosine of the descriptors brought to 0…1.
        inliers: bool [M].
        model: float64 [3, 3], or None.
    """

    indices: np.ndarray
    scores: np.ndarray
    inliers: np.ndarray
    model: np.ndarray | None


class MatchStore:
    """An SQLite file, because its transactions survive what an open HDF5 file does not.

    Features are known by the content of their image: a changed image loses its features and its
    pairs. Use it as a context manager.

    Args:
        path: The file, made if there is none.
        settings: What the work depends on; a store of other settings raises an InputError.
    """

    def __init__(self, path: str | os.PathLike, settings: Mapping[str, Any]):
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        try:
            self._connection = sqlite3.connect(path, timeout=60)
            try:
                self._connection.executescript(_SCHEMA)
                self._check(path, settings)
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{path} is no file of finished matches ({error}); delete it or choose another "
                "folder."
            ) from error

    def __enter__(self) -> MatchStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def has_features(self, name: str, sha256: str) -> bool:
        """Whether the image of that content has been described."""
        found = self._row("SELECT 1 FROM images WHERE name = ? AND sha256 = ?", name, sha256)
        return found is not None

    def write_features(self, name: str, sha256: str, features: Features) -> None:
        """Keeps the features of an image; matches with an older version of it are dropped."""
        packed = _pack(
            frames=features.frames,
            responses=features.responses,
            descriptors=features.descriptors,
            norm=features.norm,
            image_size=features.image_size,
        )
        with self._writing() as transaction:
            transaction.execute("DELETE FROM pairs WHERE ? IN (name1, name2)", (name,))
            transaction.execute(
                "INSERT OR REPLACE INTO images VALUES (?, ?, ?)", (name, sha256, packed)
            )

    def read_features(self, name: str) -> Features:
        """Gives what `write_features` kept; a KeyError if there is nothing."""
        row = self._row("SELECT features FROM images WHERE name = ?", name)
        if row is None:
            raise KeyError(name)
        arrays = _unpack(row[0])
        width, height = arrays["image_size"].tolist()
        return Features(
            arrays["frames"],
            arrays["responses"],
            arrays["descriptors"],
            int(arrays["norm"]),
            (width, height),
        )

    def has_pair(self, name1: str, name2: str) -> bool:
        """Whether the pair, in this order, has been matched."""
        row = self._row("SELECT 1 FROM pairs WHERE name1 = ? AND name2 = ?", name1, name2)
        return row is not None

    def write_pair(self, name1: str, name2: str, matches: StoredMatches) -> None:
        """Keeps the matches of a pair."""
        arrays = matches._asdict()
        if matches.model is None:
            del arrays["model"]
        with self._writing() as transaction:
            transaction.execute(
                "INSERT OR REPLACE INTO pairs VALUES (?, ?, ?)", (name1, name2, _pack(**arrays))
            )

    def read_pair(self, name1: str, name2: str) -> StoredMatches:
        """Gives what `write_pair` kept; a KeyError if there is nothing."""
        row = self._row("SELECT matches FROM pairs WHERE name1 = ? AND name2 = ?", name1, name2)
        if row is None:
            raise KeyError((name1, name2))
        arrays = _unpack(row[0])
        return StoredMatches(
            arrays["indices"], arrays["scores"], arrays["inliers"], arrays.get("model")
        )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that a full or read-only disk ends with an InputError."""
        try:
            with self._connection as transaction:
                yield transaction
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path} cannot be written ({error}); what is finished is kept in it."
            ) from error

    def _row(self, query: str, *values: str) -> tuple | None:
        return self._connection.execute(query, values).fetchone()

    def _check(self, path: pathlib.Path, settings: Mapping[str, Any]) -> None:
        record = json.dumps(settings, sort_keys=True)
        row = self._row("SELECT record FROM settings")
        if row is None:
            with self._connection as transaction:
                transaction.execute("INSERT INTO settings VALUES (?)", (record,))
            return
        old, new = json.loads(row[0]), json.loads(record)
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                raise InputError(
                    f"{path} holds work done with {name} = {old.get(name)}, not {new.get(name)}; "
                    "choose another output folder or delete it."
                )


def _pack(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _unpack(packed: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
