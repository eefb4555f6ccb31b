"""Running an exported SavedModel under `doap_tf.Descriptor`."""

import json
import os
import pathlib

import numpy as np
import tensorflow as tf

from doap_tf.errors import InputError

METADATA_FILE = "assets.extra/doap_tf.json"


class SavedModelBackend:
    """Runs the `serving_default` signature of a SavedModel that `export_saved_model` wrote.

    Args:
        path: The folder of a version, or of the model, whose newest version is used.
    """

    name = "saved_model"
    precision = "float32"

    def __init__(self, path: str | os.PathLike):
        self._path = path = _version_folder(pathlib.Path(path)).absolute()
        try:
            metadata = json.loads((path / METADATA_FILE).read_text())
            if "network" in metadata:
                raise InputError(
                    f"{path} reads whole images, on a server: in Python give the network that it "
                    "was made from to DenseExtractor."
                )
            self.input_size = int(metadata["input_size"])
            self.head = str(metadata["head"])
            self.output_dim = int(metadata["output_dim"])
            self.magnification = float(metadata["magnification"])
            self._weights_sha256 = str(metadata["weights_sha256"])
        except InputError:
            raise
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is a SavedModel, but not one of doap_tf: its {METADATA_FILE} is missing "
                f"or damaged ({error!r}); export the network again."
            ) from error
        try:
            self._model = tf.saved_model.load(str(path))
            self._describe = self._model.signatures["serving_default"]
        except Exception as error:  # TensorFlow raises many kinds for a damaged SavedModel
            raise InputError(f"{path} cannot be read as a SavedModel: {error}") from error

    def __reduce__(self) -> tuple:
        return type(self), (self._path,)

    def infer(self, patches: np.ndarray) -> np.ndarray:
        """See `doap_tf.descriptors.Backend.infer`."""
        tensor = tf.constant(patches, tf.float32)
        descriptors = self._describe(patches=tensor)["descriptors"].numpy()
        return np.packbits(descriptors > 0, axis=1) if self.head == "binary" else descriptors

    def weights_sha256(self) -> str:
        """Hash of the weights, recorded by the export."""
        return self._weights_sha256


def versions(directory: str | os.PathLike) -> list[int]:
    """The versions in a model's folder, in ascending order."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal())


def holds_saved_model(path: pathlib.Path) -> bool:
    """Whether a folder is a SavedModel, or a model's folder with versions of one."""
    return (_version_folder(path) / "saved_model.pb").exists()


def _version_folder(path: pathlib.Path) -> pathlib.Path:
    if (path / "saved_model.pb").exists() or not versions(path):
        return path
    return path / str(versions(path)[-1])
