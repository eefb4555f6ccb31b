"""Checkpoints; at least one is valid at any time."""

import json
import pathlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from doap_tf import files
from doap_tf.errors import InputError

_STATE = "state"
_NAME = re.compile(r"step-(\d{9})\.npz")


class Checkpoint(NamedTuple):
    """What a run resumes from: arrays by name, and state that JSON can hold."""

    arrays: dict[str, np.ndarray]
    state: dict[str, Any]


class Checkpoints:
    """Checkpoints in a folder, one file each, written whole or not at all.

    Args:
        directory: The folder; created with the first checkpoint.
        keep: Number of the newest checkpoints to keep.
    """

    def __init__(self, directory: pathlib.Path, keep: int = 2):
        self._directory = directory
        self._keep = keep

    def save(self, step: int, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
        """Writes a checkpoint, then removes the oldest ones."""
        path = self._directory / f"step-{step:09d}.npz"
        text = np.frombuffer(json.dumps(dict(state)).encode(), np.uint8)
        members: dict[str, Any] = {_STATE: text, **arrays}
        try:
            with files.write_atomically(path) as temporary:
                np.savez(temporary, **members)
        except OSError as error:
            raise InputError(
                f"the checkpoint {path} cannot be written ({error.strerror}); those before it are "
                "valid. Make room and resume the run."
            ) from error
        for old in self._paths()[self._keep :]:
            old.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """Returns the newest checkpoint that can be read, or None if there are none."""
        paths = self._paths()
        for path in paths:
            try:
                return _read(path)
            except Exception as error:  # NumPy raises many kinds for a damaged file
                logging.warning("%s cannot be read (%s): trying the one before.", path, error)
        if paths:
            raise InputError(
                f"none of the checkpoints in {self._directory} can be read: "
                "remove the folder to start again."
            )
        return None

    def _paths(self) -> list[pathlib.Path]:
        """Returns all checkpoints, the newest first."""
        return sorted(
            (path for path in self._directory.glob("*.npz") if _NAME.fullmatch(path.name)),
            reverse=True,
        )


def _read(path: pathlib.Path) -> Checkpoint:
    # Reading every member checks its CRC, so that a damaged file fails here and not later.
    with np.load(path, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    state = json.loads(arrays.pop(_STATE).tobytes())
    return Checkpoint(arrays, state)
