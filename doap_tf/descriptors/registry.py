"""Descriptors by name or path."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

from doap_tf.descriptors.handcrafted import HANDCRAFTED
from doap_tf.descriptors.protocol import PatchDescriptor
from doap_tf.descriptors.third_party import (
    is_function,
    load_function,
    load_onnx,
    load_torchscript,
)
from doap_tf.errors import InputError

if TYPE_CHECKING:
    from doap_tf.descriptors.descriptor import Descriptor

_WEIGHTS = pathlib.Path(__file__).parent / "weights"
_MODEL_FILE = "model.keras"
_THIRD_PARTY = {".onnx": load_onnx, ".pt": load_torchscript}
_REQUIRED = ("describe", "norm", "dimension")


def load(descriptor: str | os.PathLike | PatchDescriptor) -> PatchDescriptor:
    """Loads a descriptor.

    Args:
        descriptor: A name of `HANDCRAFTED`; anything that `from_pretrained` takes; a network of
            others as an `.onnx` or TorchScript file (`.pt`) or as a function, `module:function`,
            see `third_party`; or a descriptor, which is returned as it is.
    """
    if isinstance(descriptor, str | os.PathLike):
        name = str(descriptor)
        if name in HANDCRAFTED:
            return HANDCRAFTED[name]
        path = pathlib.Path(descriptor)
        if is_function(name) and not path.exists():
            return load_function(name)
        _check_exists(descriptor, [*HANDCRAFTED, *list_pretrained()])
        if path.suffix in _THIRD_PARTY:
            return _THIRD_PARTY[path.suffix](path)
        return from_pretrained(descriptor)
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
            its newest version) or a `.tflite` file, as `export_main.py` writes them. The class of
            a subclass of `DescriptorNetwork` must be imported before.
    """
    # Imported here because these import TensorFlow.
    from doap_tf.descriptors.descriptor import Descriptor
    from doap_tf.descriptors.keras_file import read_keras
    from doap_tf.descriptors.litert_backend import LiteRTBackend
    from doap_tf.descriptors.saved_model_backend import SavedModelBackend, holds_saved_model
    from doap_tf.descriptors.weights_file import read_weights

    _check_exists(name_or_path, list_pretrained())
    path = pathlib.Path(name_or_path)
    if str(name_or_path) in list_pretrained():
        path = _WEIGHTS / f"{name_or_path}.npz"
    if (path / _MODEL_FILE).exists():
        path = path / _MODEL_FILE
    elif holds_saved_model(path):
        return Descriptor(SavedModelBackend(path))
    elif path.is_dir():
        raise InputError(
            f"{path} holds neither {_MODEL_FILE} nor a SavedModel: has its training finished?"
        )
    if path.suffix == ".tflite":
        return Descriptor(LiteRTBackend(path))
    return Descriptor(read_weights(path) if path.suffix == ".npz" else read_keras(path))


def _check_exists(name_or_path: str | os.PathLike, names: list[str]) -> None:
    if str(name_or_path) not in names and not pathlib.Path(name_or_path).exists():
        raise InputError(
            f"{str(name_or_path)!r} is neither a file or folder nor one of {', '.join(names)}."
        )
