"""The folder of a training run: the names of what it holds, and its record."""

import json
import os
import pathlib
from typing import Any

from doap_tf import files
from doap_tf.errors import InputError, one_line

CHECKPOINTS = "checkpoints"
DENSE = "dense.tflite"
KEYPOINTS = "keypoints.tflite"
MATCHES = "matches.png"
MODEL = "model.keras"
RECORD = "train.json"
SAVED_MODEL = "saved_model"
TENSORBOARD = "tensorboard"


def model_file(path: str | os.PathLike, name: str = MODEL) -> pathlib.Path:
    """Returns the file of a model, given itself or the folder of the run that wrote it."""
    path = pathlib.Path(path)
    return path / name if path.is_dir() else path


def has_record(folder: str | os.PathLike) -> bool:
    """Whether a folder holds the record of a run."""
    return pathlib.Path(folder, RECORD).is_file()


def read_record(folder: str | os.PathLike) -> dict[str, Any]:
    """Reads the record of a run: its settings, data, environment and history."""
    path = pathlib.Path(folder, RECORD)
    try:
        record = json.loads(path.read_text("utf-8"))
        if not isinstance(record, dict):
            raise ValueError("it holds no JSON object")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path} is damaged ({one_line(error)}): resume the run to write it again."
        ) from error
    return record


def write_record(folder: str | os.PathLike, record: dict[str, Any]) -> None:
    """Writes the record of a run, whole or not at all."""
    files.write_file(pathlib.Path(folder, RECORD), json.dumps(record, indent=2) + "\n")
