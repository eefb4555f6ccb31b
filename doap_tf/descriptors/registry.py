"""Descriptors by name or path."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

from doap_tf.descriptors.handcrafted import HANDCRAFTED
from doap_tf.descriptors.protocol import PatchDescriptor
from doap_tf.errors import InputError

if TYPE_CHECKING:
    from doap_tf.descriptors.descriptor import Descriptor

_WEIGHTS = pathlib.Path(__file__).parent / "weights"
_MODEL_FILE = "model.keras"
_REQUIRED = ("describe", "norm", "dimension", "magnification")


def load(descriptor: str | os.PathLike | PatchDescriptor) -> PatchDescriptor:
    """Gives a descriptor.

    Args:
        descriptor: A name of `HANDCRAFTED`, anything that `from_pretrained` takes, or a descriptor
            already, which is given back.
    """
    if isinstance(descriptor, str | os.PathLike):
        name = str(descriptor)
        return HANDCRAFTED[name] if name in HANDCRAFTED else from_pretrained(descriptor)
    missing = [name for name in _REQUIRED if not hasattr(descriptor, name)]
    if missing:
        raise InputError(
            "descriptor must be a name, a path or an object like doap_tf.Descriptor; this "
            f"{type(descriptor).__name__} has no {', '.join(missing)}."
        )
    return descriptor


def list_pretrained() -> list[str]:
    """Names of the networks that ship with the package."""
    return sorted(file.stem for file in _WEIGHTS.glob("*.npz"))


def from_pretrained(name_or_path: str | os.PathLike) -> Descriptor:
    """Loads a network.

    Args:
        name_or_path: A name of `list_pretrained()`, a training directory, a `.keras` file, an
            `.npz` of `write_weights`, a SavedModel (the folder of a version, or of the model for
            its newest version) or a `.tflite` file, as `export_main.py` writes them.
    """
    # Imported here because these bring TensorFlow.
    from doap_tf.descriptors.descriptor import Descriptor
    from doap_tf.descriptors.keras_file import read_keras
    from doap_tf.descriptors.litert_backend import LiteRTBackend
    from doap_tf.descriptors.saved_model_backend import SavedModelBackend, holds_saved_model
    from doap_tf.descriptors.weights_file import read_weights

    path = pathlib.Path(name_or_path)
    if str(name_or_path) in list_pretrained():
        return Descriptor(read_weights(_WEIGHTS / f"{name_or_path}.npz"))
    if not path.exists():
        raise InputError(
            f"{str(name_or_path)!r} is neither a file or folder nor the name of a network that "
            f"ships with doap_tf ({', '.join(list_pretrained())})."
        )
    if path.is_dir() and not (path / _MODEL_FILE).exists():
        if holds_saved_model(path):
            return Descriptor(SavedModelBackend(path))
        raise InputError(
            f"{path} holds neither {_MODEL_FILE} nor a SavedModel: has its training finished?"
        )
    if path.is_dir():
        path = path / _MODEL_FILE
    if path.suffix == ".npz":
        return Descriptor(read_weights(path))
    if path.suffix == ".tflite":
        return Descriptor(LiteRTBackend(path))
    return Descriptor(read_keras(path))
