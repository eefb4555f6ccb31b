"""Running a .tflite model under `doap_tf.Descriptor`, by LiteRT."""

import os
import pathlib
import threading
from hashlib import sha256

import numpy as np

from doap_tf import tflite_metadata
from doap_tf.errors import InputError
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded

# Patches at a time if the batch size is free: more would not fit into the cache.
_BATCH = 16


class LiteRTBackend:
    """Runs a .tflite model that `convert_to_tflite` made.

    Args:
        path: The file.
    """

    name = "litert"

    def __init__(self, path: str | os.PathLike):
        from ai_edge_litert.interpreter import Interpreter

        model = pathlib.Path(path).read_bytes()
        try:
            metadata = tflite_metadata.read(model)
            self.input_size: int = metadata["input_size"]
            self.head: str = metadata["head"]
            self.output_dim: int = metadata["output_dim"]
            self.magnification: float = metadata["magnification"]
            self._fixed_batch: int | None = metadata["batch_size"]
            self.precision: str = metadata["precision"]
            # Quantised weights differ from those they were made from.
            exact = self.precision == "float32"
            self._sha256: str = metadata["weights_sha256"] if exact else sha256(model).hexdigest()
            self._interpreter = Interpreter(model_content=model, num_threads=cores())
        except (KeyError, ValueError) as error:
            raise InputError(
                f"{path} is not a .tflite file of a descriptor of doap_tf ({error}): export the "
                "network again."
            ) from error
        with stderr_discarded():  # LiteRT announces its delegate
            self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.get_output_details()[0]["index"]
        self._lock = threading.Lock()  # an interpreter serves one thread at a time

    def infer(self, patches: np.ndarray) -> np.ndarray:
        """See `doap_tf.descriptors.Backend.infer`; threads take turns."""
        patches = patches.astype(np.float32, copy=False)
        step = self._fixed_batch or _BATCH
        with self._lock:
            batches = [
                self._run(patches[start : start + step]) for start in range(0, len(patches), step)
            ]
        return np.concatenate(batches)

    def weights_sha256(self) -> str:
        """Hash of the network's weights in float32; in other precisions the file's."""
        return self._sha256

    def _run(self, patches: np.ndarray) -> np.ndarray:
        count = len(patches)
        if self._fixed_batch is not None:
            patches = np.pad(patches, [(0, self._fixed_batch - count), (0, 0), (0, 0), (0, 0)])
        elif tuple(self._interpreter.get_input_details()[0]["shape"]) != patches.shape:
            self._interpreter.resize_tensor_input(self._input, patches.shape)
            self._interpreter.allocate_tensors()
        self._interpreter.set_tensor(self._input, patches)
        self._interpreter.invoke()
        return self._interpreter.get_tensor(self._output)[:count]
