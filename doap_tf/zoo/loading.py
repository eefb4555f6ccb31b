"""Loading what has a name or lies in a file."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
from typing import TYPE_CHECKING, Any

from doap_tf import runs, tflite_metadata
from doap_tf.catalogue import ENTRIES, Entry
from doap_tf.descriptors.handcrafted import HANDCRAFTED
from doap_tf.descriptors.protocol import PatchDescriptor
from doap_tf.descriptors.third_party import is_function, load_function, load_onnx, load_torchscript
from doap_tf.errors import InputError, check_choice, suggestion
from doap_tf.tflite_metadata import PRECISIONS
from doap_tf.zoo import tflite_files

if TYPE_CHECKING:
    import tensorflow as tf

    from doap_tf.descriptors.descriptor import Descriptor

DENSE = "DenseNetwork"  # the class of networks of whole images
BACKENDS = ("auto", "keras", "litert")
_THIRD_PARTY = {".onnx": load_onnx, ".pt": load_torchscript}
_REQUIRED = ("describe", "norm", "dimension")


def from_pretrained(
    name_or_path: str | os.PathLike, backend: str = "auto", precision: str | None = None
) -> Any:
    """Loads a network, or a handcrafted descriptor.

    Args:
        name_or_path: A name of `list_pretrained(kind)` or of `HANDCRAFTED`, such as `"rootsift"`; a
            training directory, a `.keras` file, an `.npz` of `write_weights`, a SavedModel (the
            folder of a version, or of the model for its newest version) or a `.tflite` file, as
            `export_main.py` writes them. The class of a subclass of `DescriptorNetwork` must be
            imported before.
        backend: What runs a descriptor that ships: `"litert"`, which needs no TensorFlow, or
            `"keras"`; by default Keras where there is an NVIDIA GPU that `CUDA_VISIBLE_DEVICES`
            does not hide, and LiteRT elsewhere. Both compute in float32. Files are run by what
            they were made for.
        precision: `"float32"`, `"float16"` or `"int8"`, whose ranges are taken from photographs of
            scikit-image: faster on CPUs with instructions for it, and descriptors that differ a
            little. Of what ships, run by LiteRT; by default networks of whole images compute in
            int8 and descriptors of patches in float32.

    Returns:
        A `doap_tf.Descriptor`; for a name of `HANDCRAFTED` that `HandcraftedDescriptor`; for a
        keypoint network a `doap_tf.features.LearnedDetector`; for a network of whole images a
        `doap_tf.features.dense_reader.DenseReader`; for a name from elsewhere what was registered.
    """
    check_choice("backend", backend, BACKENDS)
    if precision is not None:
        check_choice("precision", precision, PRECISIONS)
    entry = ENTRIES.get(str(name_or_path))
    if entry and entry.kind == "descriptor" and not entry.load:
        return _shipped_descriptor(entry, backend, precision or "float32")
    if entry and entry.load:
        loaded = entry.load()
    elif str(name_or_path) in HANDCRAFTED:
        loaded = HANDCRAFTED[str(name_or_path)]
    else:
        loaded = _load_file(_shipped_file(entry, precision) if entry else _existing(name_or_path))
    if precision not in (None, getattr(loaded, "precision", "float32")):
        raise InputError(
            f"{name_or_path} computes in {getattr(loaded, 'precision', 'float32')}, not "
            f"{precision}: `export_main.py` makes .tflite files that do."
        )
    if backend not in ("auto", getattr(loaded, "backend", backend)):
        raise InputError(
            f"{name_or_path} is for the backend {loaded.backend}, not {backend}: "
            "`export_main.py` makes .tflite files of .keras files; there is no way back."
        )
    return loaded


def load_descriptor(descriptor: str | os.PathLike | PatchDescriptor) -> PatchDescriptor:
    """Loads whatever describes patches.

    Args:
        descriptor: Anything that `from_pretrained` takes; a network of others as an `.onnx` or
            TorchScript file (`.pt`) or as a function, `module:function`, see
            `doap_tf.descriptors.third_party`; or a descriptor, which is returned as it is.
    """
    loaded: Any = descriptor
    if isinstance(descriptor, str | os.PathLike):
        name, path = str(descriptor), pathlib.Path(descriptor)
        if name in HANDCRAFTED:
            return HANDCRAFTED[name]
        if is_function(name) and not path.exists():
            return load_function(name)
        if name not in ENTRIES and _existing(path, *HANDCRAFTED).suffix in _THIRD_PARTY:
            return _THIRD_PARTY[path.suffix](path)
        network = network_of_images(name)
        if network == "KeypointNetwork" or (name in ENTRIES and ENTRIES[name].kind == "detector"):
            raise InputError(f"{name} finds keypoints and describes none: give it as the detector.")
        if network == DENSE:
            raise InputError(f"{name} reads whole images, not patches: give it to DenseExtractor.")
        loaded = from_pretrained(descriptor)
    missing = [name for name in _REQUIRED if not hasattr(loaded, name)]
    if missing:
        raise InputError(
            "descriptor must be a name, a path or an object like doap_tf.Descriptor; this "
            f"{type(loaded).__name__} has no {', '.join(missing)}."
        )
    return loaded


def load_keras(name_or_path: str | os.PathLike, *bases: type[tf.keras.Model]) -> Any:
    """Loads a Keras network.

    Args:
        name_or_path: The name of a network that ships, a training directory, a `.keras` file or an
            `.npz` of `write_weights`.
        bases: Classes of networks to accept, all by default.
    """
    from doap_tf.descriptors.saved_model_backend import holds_saved_model
    from doap_tf.networks import DenseNetwork, DescriptorNetwork, KeypointNetwork
    from doap_tf.networks.network_file import read_network

    bases = bases or (DescriptorNetwork, KeypointNetwork, DenseNetwork)
    entry = ENTRIES.get(str(name_or_path))
    if entry and not entry.load:
        return read_network(entry.weights, *bases)
    given = _existing(name_or_path)
    path = runs.model_file(given)
    if path.suffix == ".tflite" or (holds_saved_model(given) and not path.exists()):
        raise InputError(
            f"{given} is an export, from which no Keras network can be made: give the .keras file "
            "or the training directory that it came from."
        )
    if not path.exists():
        raise InputError(
            f"{given} holds neither {runs.MODEL} nor a SavedModel: has its training finished?"
        )
    return read_network(path, *bases)


def _shipped_descriptor(entry: Entry, backend: str, precision: str) -> Descriptor:
    from doap_tf.descriptors.descriptor import Descriptor

    if precision != "float32":
        if backend == "keras":
            raise InputError(f"the backend keras computes in float32, not {precision}: use litert.")
        backend = "litert"
    if backend == "litert" or (backend == "auto" and not _has_gpu()):
        from doap_tf.descriptors.litert_backend import LiteRTBackend

        try:
            model = LiteRTBackend(tflite_files.tflite_file(entry.name, precision))
            return Descriptor(model, functools.partial(load_keras, entry.name))
        except OSError:  # no cache can be written
            if backend == "litert":
                raise
    return Descriptor(load_keras(entry.name))


def _shipped_file(entry: Entry, precision: str | None) -> pathlib.Path:
    if entry.kind == "extractor":
        return tflite_files.tflite_file(entry.name, precision or "int8")
    return entry.file(".tflite")


def _load_file(path: pathlib.Path) -> Any:
    from doap_tf.descriptors.descriptor import Descriptor

    network = network_of_images(path)
    if network == "KeypointNetwork":
        from doap_tf.features.learned import open_learned

        return open_learned(path)
    if network == DENSE:
        from doap_tf.features.dense_reader import DenseReader

        return DenseReader(path)
    if path.suffix == ".tflite":
        from doap_tf.descriptors.litert_backend import LiteRTBackend

        return Descriptor(LiteRTBackend(path))

    # Imported here because these import TensorFlow.
    from doap_tf.descriptors.saved_model_backend import SavedModelBackend, holds_saved_model
    from doap_tf.networks import DescriptorNetwork

    if holds_saved_model(path):
        return Descriptor(SavedModelBackend(path))
    return Descriptor(load_keras(path, DescriptorNetwork))


def joined_names(name_or_path: str | os.PathLike) -> tuple[str, str]:
    """Both names of `NETWORK+NETWORK`; any other as it is, and none."""
    name = str(name_or_path)
    first, plus, second = name.rpartition("+")
    return (first, second) if plus and not pathlib.Path(name).exists() else (name, "")


def network_of_images(path: str | os.PathLike) -> str | None:
    """The class of a network of images that ships or lies in a file or folder, or None.

    Of `NETWORK+NETWORK` it is the first that reads images.
    """
    name = joined_names(path)[0]
    entry = ENTRIES.get(name)
    if entry and entry.kind == "extractor" and not entry.load:
        return DENSE
    path = pathlib.Path(name)
    if path.suffix != ".tflite":
        classes = {runs.KEYPOINTS: "KeypointNetwork", runs.DENSE: DENSE}
        return next((classes[name] for name in classes if (path / name).exists()), None)
    try:
        return tflite_metadata.read(path.read_bytes()).get("network")
    except (OSError, ValueError):  # refused, with the reason, by what runs it
        return None


def _has_gpu() -> bool:
    """Whether TensorFlow is likely to find a GPU, told without importing it."""
    return (
        os.environ.get("CUDA_VISIBLE_DEVICES") not in ("", "-1")
        and any(pathlib.Path("/dev").glob("nvidia[0-9]*"))
        and importlib.util.find_spec("tensorflow") is not None
    )


def _existing(path: str | os.PathLike, *other_names: str) -> pathlib.Path:
    """Returns a path that exists; the error lists the names that it could be instead."""
    if not pathlib.Path(path).exists():
        known = [*other_names, *ENTRIES]
        raise InputError(
            f"{str(path)!r} is neither a file or folder nor one of {', '.join(known)}."
            f"{suggestion(path, known)}"
        )
    return pathlib.Path(path)
