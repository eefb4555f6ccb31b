"""Loading networks by name or by path."""

import os
import pathlib

from doap_tf.descriptor import Descriptor
from doap_tf.errors import InputError
from doap_tf.export.litert_backend import LiteRTBackend
from doap_tf.export.saved_model_backend import SavedModelBackend, holds_saved_model
from doap_tf.pretrained.keras_file import read_keras
from doap_tf.pretrained.weights_file import read_weights

_WEIGHTS = pathlib.Path(__file__).parent / "weights"
_MODEL_FILE = "model.keras"


def list_pretrained() -> list[str]:
    """Names of the networks that ship with the package."""
    return sorted(file.stem for file in _WEIGHTS.glob("*.npz"))


def from_pretrained(name_or_path: str | os.PathLike) -> Descriptor:
    """Loads a network.

    Args:
        name_or_path: A name of `list_pretrained()`, a training directory, a `.keras` file, an
            `.npz` of `write_weights`, a SavedModel (a version's folder, or the model's for its
            newest version) or a `.tflite` file, as `export_main.py` writes them.
    """
    path = pathlib.Path(name_or_path)
    if str(name_or_path) in list_pretrained():
        return Descriptor(read_weights(_WEIGHTS / f"{name_or_path}.npz"))
    if not path.exists():
        shipped = ", ".join(list_pretrained()) or "none"
        raise InputError(
            f"{str(name_or_path)!r} is neither a file or folder nor a network that ships with "
            f"doap_tf ({shipped})."
        )
    if path.is_dir():
        if not (path / _MODEL_FILE).exists():
            if holds_saved_model(path):
                return Descriptor(SavedModelBackend(path))
            raise InputError(
                f"{path} holds neither {_MODEL_FILE} nor a SavedModel: is its training finished?"
            )
        path = path / _MODEL_FILE
    if path.suffix == ".npz":
        return Descriptor(read_weights(path))
    if path.suffix == ".tflite":
        return Descriptor(LiteRTBackend(path))
    return Descriptor(read_keras(path))
