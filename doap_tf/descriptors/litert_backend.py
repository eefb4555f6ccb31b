"""Running a .tflite model under `doap_tf.Descriptor`, by LiteRT."""

import os
import pathlib
from hashlib import sha256
from typing import Any

import numpy as np

from doap_tf import tflite_metadata
from doap_tf.interpreters import Interpreters

# Patches at a time if the batch size is free: more would not fit into the cache.
_BATCH = 16


class LiteRTBackend:
    """Runs a .tflite model that `convert_to_tflite` made.

    Args:
        path: The file.
    """

    name = "litert"

    def __init__(self, path: str | os.PathLike):
        with tflite_metadata.opened(pathlib.Path(path)) as (model, metadata):
            self.input_size: int = metadata["input_size"]
            self.head: str = metadata["head"]
            self.output_dim: int = metadata["output_dim"]
            self.magnification: float = metadata["magnification"]
            self._fixed_batch: int | None = metadata["batch_size"]
            self.precision: str = metadata["precision"]
            # Quantised weights differ from those they were made from.
            exact = self.precision == "float32"
            self._sha256: str = metadata["weights_sha256"] if exact else sha256(model).hexdigest()
            self._interpreters = Interpreters(model)
            self._interpreter()

    def infer(self, patches: np.ndarray) -> np.ndarray:
        """See `doap_tf.descriptors.Backend.infer`; threads take turns."""
        patches = patches.astype(np.float32, copy=False)
        step = self._fixed_batch or _BATCH
        with self._interpreters.lock:
            batches = [
                self._run(patches[start : start + step]) for start in range(0, len(patches), step)
            ]
        return np.concatenate(batches)

    def weights_sha256(self) -> str:
        """Hash of the network's weights in float32; in other precisions the file's."""
        return self._sha256

    def _run(self, patches: np.ndarray) -> np.ndarray:
        count = len(patches)
        interpreter = self._interpreter()
        given = interpreter.get_input_details()[0]
        if self._fixed_batch is not None:
            patches = np.pad(patches, [(0, self._fixed_batch - count), (0, 0), (0, 0), (0, 0)])
        elif tuple(given["shape"]) != patches.shape:
            interpreter.resize_tensor_input(given["index"], patches.shape)
            interpreter.allocate_tensors()
        interpreter.set_tensor(given["index"], patches)
        interpreter.invoke()
        return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[:count]

    def _interpreter(self) -> Any:
        return self._interpreters.get("any shape", _allocated)


def _allocated(interpreter: Any) -> Any:
    interpreter.allocate_tensors()
    return interpreter
