"""Models for LiteRT without their weights, which the `.npz` file of the network holds already.

A network that ships is stored once: `NAME.npz` has its weights in float16, `NAME.graph.tflite` all
else that LiteRT needs. Converted, a kernel is that of the network times a factor per output, into
which batch normalisation is folded; the graph keeps the factors.
"""

import os
from typing import Any

import numpy as np

from doap_tf import tflite_metadata
from doap_tf.files import contents_sha256

_RECORD = "doap_tf_weights"
_SMALLEST = 4096  # bytes of a constant that is worth leaving out
_ULPS = 4  # by which a factor may be off that is told from one quotient


def remove_weights(model: bytes, weights: str | os.PathLike) -> bytes:
    """Returns a converted model without the kernels that can be computed from a `.npz` file."""
    kernels = _kernels(weights)
    tree = tflite_metadata.unpack(model)
    removed = []
    for number, buffer in enumerate(tree.buffers):
        if buffer.data is None or len(buffer.data) < _SMALLEST:
            continue
        values = np.frombuffer(bytes(buffer.data), np.float32)
        for name, rows in kernels.items():
            factors = _factors(rows, values)
            if factors is not None:
                removed.append({"buffer": number, "weight": name, "factors": len(tree.buffers)})
                tree.buffers.append(type(buffer)())
                tree.buffers[-1].data, buffer.data = factors.tobytes(), None
                break
    record = {"removed": removed, "weights_file_sha256": contents_sha256(weights)}
    return tflite_metadata.attach(tflite_metadata.pack(tree), record, _RECORD)


def restore_weights(graph: bytes, weights: str | os.PathLike) -> bytes:
    """Returns the model that `remove_weights` was given."""
    kernels, tree = _kernels(weights), tflite_metadata.unpack(graph)
    for entry in tflite_metadata.read(graph, _RECORD)["removed"]:
        factors = np.frombuffer(bytes(tree.buffers[entry["factors"]].data), np.float32)
        values = kernels[entry["weight"]] * factors[:, np.newaxis]
        tree.buffers[entry["buffer"]].data = np.frombuffer(values.tobytes(), np.uint8)
        tree.buffers[entry["factors"]].data = None
    return tflite_metadata.pack(tree)


def is_of(graph: bytes, weights: str | os.PathLike) -> bool:
    """Whether a graph was made from this `.npz` file."""
    record = tflite_metadata.read(graph, _RECORD)
    return record["weights_file_sha256"] == contents_sha256(weights)


def _kernels(weights: str | os.PathLike) -> dict[str, np.ndarray]:
    """The kernels in a file of weights as LiteRT stores them, float32 [outputs, inputs]."""
    with np.load(weights, allow_pickle=False) as members:
        arrays: dict[str, Any] = {name: members[name] for name in members.files}
    return {
        name: np.moveaxis(array, -1, 0).reshape(array.shape[-1], -1).astype(np.float32)
        for name, array in arrays.items()
        if array.dtype == np.float16 and array.ndim > 1
    }


def _factors(rows: np.ndarray, values: np.ndarray) -> np.ndarray | None:
    """Factors [outputs] such that rows [outputs, inputs] times them are the values, to the bit."""
    if rows.size != values.size:
        return None
    values = values.reshape(rows.shape)
    largest = np.argmax(np.abs(rows), axis=1)[:, np.newaxis]
    divisors = np.take_along_axis(rows, largest, 1)
    quotients = (np.take_along_axis(values, largest, 1) / np.where(divisors, divisors, 1))[:, 0]
    factors, exact = quotients, np.zeros(len(rows), bool)
    for step in range(-_ULPS, _ULPS + 1):
        tried = quotients.view(np.int32) + step
        tried = tried.view(np.float32)
        fits = (rows * tried[:, np.newaxis] == values).all(axis=1)
        factors = np.where(fits & ~exact, tried, factors)
        exact |= fits
    return factors.astype(np.float32) if exact.all() else None
