"""The models under evaluation: networks and classical descriptors by name or path."""

import dataclasses
import functools
import hashlib
import json
import pathlib
from typing import Any

import numpy as np

from doap_tf.descriptors import HANDCRAFTED, PatchDescriptor, load
from doap_tf.errors import InputError

_PROBES = 64
_PROBE_SIDE = 64


@dataclasses.dataclass(frozen=True)
class Model:
    """A descriptor with the name that results give it.

    Attributes:
        name: What tables and files call it.
        descriptor: The descriptor itself.
        training: What is known of its training: `batch_size`, and `data`, where it came from.
    """

    name: str
    descriptor: PatchDescriptor
    training: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def weights_sha256(self) -> str | None:
        """Identifies the weights; None for a descriptor without any."""
        return getattr(self.descriptor, "weights_sha256", None)

    @functools.cached_property
    def identity(self) -> str:
        """A hash of what the model does, for caches: of its weights and of its answers.

        The weights alone would not do: the same ones give other descriptors under another padding,
        and a classical descriptor may change with OpenCV's version.
        """
        random = np.random.default_rng(0)
        coarse = random.integers(0, 256, (_PROBES, 8, 8), np.uint8)
        probes = np.kron(coarse, np.ones((1, _PROBE_SIDE // 8, _PROBE_SIDE // 8), np.uint8))
        answers = np.ascontiguousarray(self.descriptor.describe(probes))
        digest = hashlib.sha256(f"{self.weights_sha256} {answers.dtype} {answers.shape}".encode())
        digest.update(answers.tobytes())
        return digest.hexdigest()


def load_model(name_or_path: str) -> Model:
    """Loads a descriptor, by a name or path that `doap_tf.descriptors.load` takes."""
    if name_or_path in HANDCRAFTED:
        return Model(name_or_path, load(name_or_path))
    path = pathlib.PurePath(name_or_path)
    return Model(
        path.stem if path.suffix in (".keras", ".tflite") else path.name,
        load(name_or_path),
        training_record(pathlib.Path(name_or_path)),
    )


def load_models(names_or_paths: list[str]) -> list[Model]:
    """Loads several models and gives those that would share a name the names of their paths."""
    models = [load_model(name) for name in names_or_paths]
    names = [model.name for model in models]
    if len(set(names)) == len(names):
        return models
    if len(set(names_or_paths)) < len(names):
        raise InputError(f"a model is named twice among {', '.join(names_or_paths)}.")
    return [
        dataclasses.replace(model, name="_".join(pathlib.PurePath(path).parts[-2:]))
        for model, path in zip(models, names_or_paths, strict=True)
    ]


def training_record(path: pathlib.Path) -> dict[str, Any]:
    """What the record in a training directory says; nothing where there is none."""
    try:
        record = json.loads((path / "train.json").read_text("utf-8"))
        return {
            "batch_size": int(record["config"]["batch_size"]),
            "data": str(record["data"]["train"]["source"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}
