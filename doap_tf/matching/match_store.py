"""Storing finished features and matches, so that an interrupted run can resume."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from doap_tf.errors import InputError, writing_to
from doap_tf.matching.image_features import Features
from doap_tf.matching.verifier import PairMatches

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS images (
    name TEXT PRIMARY KEY, sha256 TEXT NOT NULL, features BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS pairs (
    settings TEXT NOT NULL, name1 TEXT NOT NULL, name2 TEXT NOT NULL, matches BLOB NOT NULL,
    PRIMARY KEY (settings, name1, name2));
CREATE INDEX IF NOT EXISTS pairs_by_name1 ON pairs (name1);
CREATE INDEX IF NOT EXISTS pairs_by_name2 ON pairs (name2);
"""
_VERSION = 1  # of the format of features and matches
_CHECKSUM_BYTES = 4

# What is known already stays as it is, and so do its matches.
_ABSORB = """
BEGIN;
DELETE FROM other.images AS theirs WHERE EXISTS (
    SELECT 1 FROM main.images WHERE name = theirs.name AND sha256 = theirs.sha256);
DELETE FROM main.pairs WHERE name1 IN (SELECT name FROM other.images)
    OR name2 IN (SELECT name FROM other.images);
INSERT OR REPLACE INTO main.images SELECT * FROM other.images;
INSERT OR REPLACE INTO main.pairs SELECT * FROM other.pairs;
COMMIT;
"""


class StoredMatches(NamedTuple):
    """The matches of a pair of images.

    Attributes:
        indices: int64 [M, 2].
        scores: float32 [M], 0…1.
        inliers: bool [M].
        model: float64 [3, 3], or None.
        geometry: Of the model; None if the matches were not verified.
        confidence: 0…1; None if the matches were not verified.
    """

    indices: np.ndarray
    scores: np.ndarray
    inliers: np.ndarray
    model: np.ndarray | None
    geometry: str | None
    confidence: float | None


class MatchStore:
    """An SQLite file, whose transactions survive a crash; a context manager.

    Features belong to the content of their image: a changed image loses its features and matches.

    Args:
        path: The file, created if necessary.
        settings: What features depend on; a store of other features raises an InputError.
        matching: What matches depend on besides; the matches of each value are kept apart.
        read_only: Whether the file exists and nobody writes it; then it needs no locks, which file
            systems that machines share often lack.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        settings: Mapping[str, Any],
        matching: Mapping[str, Any] | None = None,
        read_only: bool = False,
    ):
        self.path = pathlib.Path(path)
        self.settings, self.matching = dict(settings), dict(matching or {})
        self._matching = json.dumps(self.matching, sort_keys=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with contextlib.ExitStack() as refusal:
                if read_only:
                    address = f"{self.path.absolute().as_uri()}?mode=ro&immutable=1"
                    self._connection = sqlite3.connect(address, uri=True, check_same_thread=False)
                else:
                    self._connection = sqlite3.connect(path, timeout=60)
                refusal.callback(self._connection.close)
                self._connection.executescript(_SCHEMA)
                self._check_settings()
                refusal.pop_all()
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{path} is not a file of finished matches ({error}); delete it or choose another "
                "folder."
            ) from error

    def __enter__(self) -> MatchStore:
        return self

    def __exit__(self, *exception: object) -> None:
        self._connection.close()

    def has_features(self, name: str, sha256: str) -> bool:
        """Whether the image, with this content, has been described."""
        return self._row("SELECT 1 FROM images WHERE name = ? AND sha256 = ?", name, sha256) != ()

    def write_features(self, name: str, sha256: str, features: Features) -> None:
        """Stores the features of an image; matches of an older version of it are deleted."""
        packed = _pack(vars(features))
        with writing_to(self.path, sqlite3.Error), self._connection as transaction:
            transaction.execute("DELETE FROM pairs WHERE ?1 = name1 OR ?1 = name2", (name,))
            transaction.execute(
                "INSERT OR REPLACE INTO images VALUES (?, ?, ?)", (name, sha256, packed)
            )

    def read_features(self, name: str) -> Features:
        """Returns stored features; raises a KeyError if there are none."""
        arrays = self._arrays("SELECT features FROM images WHERE name = ?", name)
        arrays |= {"norm": int(arrays["norm"]), "image_size": tuple(arrays["image_size"].tolist())}
        return Features(**arrays)

    def has_pair(self, name1: str, name2: str) -> bool:
        """Whether the pair, in this order, has been matched."""
        query = "SELECT 1 FROM pairs WHERE settings = ? AND name1 = ? AND name2 = ?"
        return self._row(query, self._matching, name1, name2) != ()

    def write_pair(self, name1: str, name2: str, matches: StoredMatches | PairMatches) -> None:
        """Stores the matches of a pair."""
        packed = _pack({name: getattr(matches, name) for name in StoredMatches._fields})
        with writing_to(self.path, sqlite3.Error), self._connection as transaction:
            transaction.execute(
                "INSERT OR REPLACE INTO pairs VALUES (?, ?, ?, ?)",
                (self._matching, name1, name2, packed),
            )

    def read_pair(self, name1: str, name2: str) -> StoredMatches:
        """Returns stored matches; raises a KeyError if there are none."""
        query = "SELECT matches FROM pairs WHERE settings = ? AND name1 = ? AND name2 = ?"
        arrays = self._arrays(query, self._matching, name1, name2)
        for name in ("geometry", "confidence"):
            if name in arrays:
                arrays[name] = arrays[name].item()
        return StoredMatches(**{"model": None, "geometry": None, "confidence": None, **arrays})

    def contents(self) -> dict[str, str]:
        """Returns the SHA-256 of every image that has been described, by name."""
        return dict(self._connection.execute("SELECT name, sha256 FROM images"))

    def mean_feature_bytes(self) -> float:
        """Returns the mean size of the features of an image; 0 without images."""
        (mean,) = self._row("SELECT AVG(LENGTH(features)) FROM images")
        return mean or 0.0

    def absorb(self, path: str | os.PathLike) -> None:
        """Takes over all that another store holds, then deletes its file."""
        self._connection.execute("ATTACH ? AS other", (str(path),))
        try:
            with writing_to(self.path, sqlite3.Error), self._connection as transaction:
                transaction.executescript(_ABSORB)
        finally:
            self._connection.execute("DETACH other")
        pathlib.Path(path).unlink()

    def _row(self, query: str, *values: str) -> tuple:
        try:
            return self._connection.execute(query, values).fetchone() or ()
        except sqlite3.OperationalError:  # such as a lock: nothing is damaged
            raise
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error

    def _arrays(self, query: str, *key: str) -> dict[str, Any]:
        row = self._row(query, *key)
        if not row:
            raise KeyError(key)
        try:
            return _unpack(row[0])
        except Exception as error:  # many kinds for damaged bytes
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"{self.path} is damaged ({error}): delete it to match anew.")

    def _check_settings(self) -> None:
        record = json.dumps(self.settings, sort_keys=True)
        row = self._row("SELECT record FROM settings")
        if not row:
            with self._connection as transaction:
                transaction.execute("INSERT INTO settings VALUES (?)", (record,))
                transaction.execute(f"PRAGMA user_version = {_VERSION}")
            return
        if self._row("PRAGMA user_version") != (_VERSION,):
            raise InputError(
                f"{self.path} is of another version of doap_tf; choose another output folder or "
                "delete it."
            )
        old, new = json.loads(row[0]), json.loads(record)
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                raise InputError(
                    f"{self.path} holds features for {name} = {old.get(name)}, not "
                    f"{new.get(name)}; choose another output folder or delete it."
                )


def _pack(arrays: Mapping[str, Any]) -> bytes:
    """Returns a checksum, a line that describes the arrays, and their bytes.

    An archive of NumPy holds the same, but takes 20 times as long to read when arrays are small.
    """
    known = {name: np.asarray(array) for name, array in arrays.items() if array is not None}
    header = {name: [array.dtype.str, array.shape] for name, array in known.items()}
    parts = [json.dumps(header).encode(), *(array.tobytes() for array in known.values())]
    contents = parts[0] + b"\n" + b"".join(parts[1:])
    return zlib.crc32(contents).to_bytes(_CHECKSUM_BYTES, "little") + contents


def _unpack(packed: bytes) -> dict[str, np.ndarray]:
    checksum, contents = packed[:_CHECKSUM_BYTES], packed[_CHECKSUM_BYTES:]
    if zlib.crc32(contents) != int.from_bytes(checksum, "little"):
        raise ValueError("a checksum is wrong")
    start = contents.index(b"\n") + 1
    arrays = {}
    for name, (kind, shape) in json.loads(contents[:start]).items():
        array = np.frombuffer(contents, kind, math.prod(shape), start)
        arrays[name] = array.reshape(shape).copy()  # aligned, and writable
        start += array.nbytes
    return arrays
