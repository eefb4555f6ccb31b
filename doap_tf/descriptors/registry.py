"""Descriptors by name or path."""

from __future__ import annotations

import importlib.util
import os
import pathlib
from typing import TYPE_CHECKING

from doap_tf import runs
from doap_tf.descriptors import shipped
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

BACKENDS = ("auto", "keras", "litert")
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
    return shipped.names()


def from_pretrained(
    name_or_path: str | os.PathLike, backend: str = "auto", precision: str = "float32"
) -> Descriptor:
    """Loads a network.

    Args:
        name_or_path: A name of `list_pretrained()`, a training directory, a `.keras` file, an
            `.npz` of `write_weights`, a SavedModel (the folder of a version, or of the model for
            its newest version) or a `.tflite` file, as `export_main.py` writes them. The class of
            a subclass of `DescriptorNetwork` must be imported before.
        backend: What runs a network that ships: `"litert"`, which needs no TensorFlow, or
            `"keras"`; by default Keras where there is an NVIDIA GPU that `CUDA_VISIBLE_DEVICES`
            does not hide, and LiteRT elsewhere. Both compute in float32. Files are run by what
            they were made for.
        precision: `"float32"`, or of a network that ships, run by LiteRT, `"float16"` or `"int8"`,
            whose ranges are taken from photographs of scikit-image: faster on CPUs with
            instructions for it, and descriptors that differ a little.
    """
    if backend not in BACKENDS:
        raise InputError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}.")
    if precision not in shipped.PRECISIONS:
        raise InputError(
            f"precision must be one of {', '.join(shipped.PRECISIONS)}, not {precision!r}."
        )
    _check_exists(name_or_path, list_pretrained())
    if str(name_or_path) in list_pretrained():
        return _load_shipped(str(name_or_path), backend, precision)
    descriptor = _load_file(pathlib.Path(name_or_path))
    if precision not in ("float32", descriptor.precision):
        raise InputError(
            f"{name_or_path} computes in {descriptor.precision}, not {precision}: "
            "`export_main.py` makes .tflite files that do."
        )
    if backend not in ("auto", descriptor.backend):
        raise InputError(
            f"{name_or_path} is for the backend {descriptor.backend}, not {backend}: "
            "`export_main.py` makes .tflite files of .keras files, nothing the reverse."
        )
    return descriptor


def _load_shipped(name: str, backend: str, precision: str) -> Descriptor:
    from doap_tf.descriptors.descriptor import Descriptor

    weights = shipped.weights_file(name)
    if precision != "float32":
        if backend == "keras":
            raise InputError(f"the backend keras computes in float32, not {precision}: use litert.")
        backend = "litert"
    if backend == "litert" or (backend == "auto" and not _has_gpu()):
        from doap_tf.descriptors.litert_backend import LiteRTBackend

        try:
            return Descriptor(LiteRTBackend(shipped.tflite_file(name, precision)), weights)
        except OSError:  # no cache can be written
            if backend == "litert":
                raise
    return _load_file(weights)


def _load_file(path: pathlib.Path) -> Descriptor:
    from doap_tf.descriptors.descriptor import Descriptor

    if path.suffix == ".tflite":
        from doap_tf.descriptors.litert_backend import LiteRTBackend

        return Descriptor(LiteRTBackend(path))

    # Imported here because these import TensorFlow.
    from doap_tf.descriptors.keras_file import read_keras
    from doap_tf.descriptors.saved_model_backend import SavedModelBackend, holds_saved_model
    from doap_tf.descriptors.weights_file import read_weights

    if (path / runs.MODEL).exists():
        path = path / runs.MODEL
    elif holds_saved_model(path):
        return Descriptor(SavedModelBackend(path))
    elif path.is_dir():
        raise InputError(
            f"{path} holds neither {runs.MODEL} nor a SavedModel: has its training finished?"
        )
    return Descriptor(read_weights(path) if path.suffix == ".npz" else read_keras(path))


def _has_gpu() -> bool:
    """Whether TensorFlow is likely to find a GPU, told without importing it."""
    return (
        os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
        and any(pathlib.Path("/dev").glob("nvidia[0-9]*"))
        and importlib.util.find_spec("tensorflow") is not None
    )


def _check_exists(name_or_path: str | os.PathLike, names: list[str]) -> None:
    if str(name_or_path) not in names and not pathlib.Path(name_or_path).exists():
        raise InputError(
            f"{str(name_or_path)!r} is neither a file or folder nor one of {', '.join(names)}."
        )
