"""Models under evaluation: networks and handcrafted descriptors by name or path."""

import dataclasses
import functools
import hashlib
import pathlib
from typing import Any

import numpy as np

from doap_tf import runs
from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors import PatchDescriptor
from doap_tf.descriptors.handcrafted import HANDCRAFTED
from doap_tf.errors import InputError
from doap_tf.zoo import load_descriptor

_MODEL_FILES = (".keras", ".npz", ".onnx", ".pt", ".tflite")


@dataclasses.dataclass(frozen=True)
class Model:
    """A descriptor with the name that results give it.

    Attributes:
        name: Name in tables and of files.
        descriptor: The descriptor itself.
        training: What is known of its training: `batch_size`; `data`, its source, which is "none"
            for a descriptor that needs no training; and `chosen_on`, the scenes by which its recipe
            was chosen.
    """

    name: str
    descriptor: PatchDescriptor
    training: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def weights_sha256(self) -> str | None:
        """Hash of the weights; None for a descriptor without weights."""
        return getattr(self.descriptor, "weights_sha256", None)

    @property
    def backend(self) -> str | None:
        """What runs the network; None for a descriptor without one of ours."""
        return getattr(self.descriptor, "backend", None)

    @property
    def precision(self) -> str | None:
        """What the network computes in; None for a descriptor without one of ours."""
        return getattr(self.descriptor, "precision", None)

    @property
    def magnification(self) -> float | None:
        """The descriptor's own: half the side of a patch over the radius of its frame."""
        return getattr(self.descriptor, "magnification", None)

    @functools.cached_property
    def identity(self) -> str:
        """Hash of the weights, of what runs them and of fixed patches' descriptors, for caches.

        The weights alone are not enough: a network gives other descriptors under another padding,
        and a handcrafted descriptor may change with the version of OpenCV.
        """
        coarse = np.random.default_rng(0).integers(0, 256, (64, 8, 8), np.uint8)
        answers = np.ascontiguousarray(self.descriptor.describe(coarse.repeat(8, 1).repeat(8, 2)))
        digest = hashlib.sha256(
            f"{self.weights_sha256} {self.backend} {self.precision} "
            f"{answers.dtype} {answers.shape}".encode()
        )
        digest.update(answers.tobytes())
        return digest.hexdigest()


def load_model(name_or_path: str) -> Model:
    """Loads a model by a name or path that `doap_tf.zoo.load_descriptor` accepts."""
    path = pathlib.Path(name_or_path)
    name = path.stem if path.suffix in _MODEL_FILES else path.name
    return Model(name, load_descriptor(name_or_path), training_of(name_or_path))


def load_models(names_or_paths: list[str]) -> list[Model]:
    """Loads several models; if two would share a name, all are named by the ends of their paths."""
    models = [load_model(name) for name in names_or_paths]
    names = [model.name for model in models]
    if len(set(names)) == len(names):
        return models
    parts = [pathlib.PurePath(path).parts for path in names_or_paths]
    for length in range(2, max(map(len, parts)) + 1):
        names = ["_".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return [
                dataclasses.replace(model, name=name)
                for model, name in zip(models, names, strict=True)
            ]
    raise InputError(f"a model is named twice among {', '.join(names_or_paths)}.")


def training_of(name_or_path: str) -> dict[str, Any]:
    """Returns the `Model.training` of a name or path."""
    if name_or_path in HANDCRAFTED:
        return {"data": "none"}
    if entry := ENTRIES.get(name_or_path):
        if entry.trained_on is None:
            return {}
        return {"data": ",".join(entry.trained_on), "chosen_on": ",".join(entry.chosen_on)}
    return training_record(pathlib.Path(name_or_path))


def training_record(path: pathlib.Path) -> dict[str, Any]:
    """Returns the `Model.training` of a training directory; empty for any other path."""
    if not runs.has_record(path):
        return {}
    record = runs.read_record(path)
    try:
        return {
            "batch_size": int(record["config"]["batch_size"]),
            "data": str(record["data"]["train"]["source"]),
        }
    except (ValueError, KeyError, TypeError):
        return {}
