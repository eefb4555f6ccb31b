"""Nearest neighbours by products of 8-bit integers, whose nearest few are compared exactly.

The descriptors of one image become the kernel of a fully connected layer, which LiteRT applies to
those of the other: every processor has fast instructions for that, and NumPy uses none of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import flatbuffers
import numpy as np
import numpy.typing as npt

from doap_tf.metrics.distances import (
    NORM_HAMMING,
    note_nearest_rows,
    paired_distances,
    smallest_per_row,
)
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded

#: Of descriptors; of more the Hamming distances are too many for 8 bits.
MOST_BITS = 256
_UNIT = 1e-4  # by which squared lengths differ from 1 that rounding to 8 bits does not notice
_ROWS = 128  # compared at a time, so that what is computed stays in the processor's cache


def nearest_quantized(
    queries: np.ndarray, database: np.ndarray, norm: int, k: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what `doap_tf.metrics.nearest_both_ways` does, for floats up to rounding to 8 bits.

    Rounding decides only which neighbours are compared, at least two of every query. Among them
    order and distances are exact. Bits are not rounded, but 255 and 256 different ones count alike.

    Args:
        queries: [Q, D], finite, or packed bits [Q, bits / 8], at most `MOST_BITS`; Q > 0.
        database: [N, D], finite, or packed bits [N, bits / 8]; N ≥ 2.
        norm: NORM_L2 or NORM_HAMMING.
        k: Number of neighbours, 1 or 2.

    Returns:
        Indices int64 [Q, k], distances float32 [Q, k], and the nearest query of every descriptor of
        the database, int64 [N].
    """
    candidates = np.empty((len(queries), 2), np.int64)
    back = np.empty(len(database), np.int64)
    least = np.full(len(database), np.inf, np.float32)
    layer = (_HammingLayer if norm == NORM_HAMMING else _EuclideanLayer)(database)
    for start in range(0, len(queries), _ROWS):
        rows = slice(start, start + _ROWS)
        compared = layer.compare(queries[rows])
        note_nearest_rows(compared, start, least, back)
        candidates[rows] = smallest_per_row(compared, 2)[0]
        del compared  # a view of what the layer computes next
    # Where all others are as far as 8 bits reach, the nearest is found twice.
    alone = candidates[:, 0] == candidates[:, 1]
    candidates[alone, 1] = candidates[alone, 0] == 0
    query_rows = np.repeat(np.arange(len(queries)), 2)
    columns = candidates.ravel()
    distances = paired_distances(queries[query_rows], database[columns], norm).astype(np.float32)
    further = paired_distances(queries[back], database, norm)
    back = _nearest_queries(query_rows, columns, distances, back, further)
    distances = distances.reshape(candidates.shape)
    order = np.lexsort((candidates, distances))[:, :k]
    nearest = np.take_along_axis(candidates, order, axis=1)
    return nearest, np.take_along_axis(distances, order, axis=1), back


def _nearest_queries(
    rows: np.ndarray,
    columns: np.ndarray,
    distances: np.ndarray,
    noted: np.ndarray,
    further: np.ndarray,
) -> np.ndarray:
    """Returns the nearest query of every column among those compared exactly and the one noted."""
    rows = np.concatenate([rows, noted])
    columns = np.concatenate([columns, np.arange(len(noted))])
    order = np.lexsort((rows, np.concatenate([distances, further]), columns))
    first = np.unique(columns[order], return_index=True)[1]
    return rows[order[first]]


class _Tensor(NamedTuple):
    """A tensor of a layer: its shape, type (of LiteRT), values if constant, and scale if 8 bits."""

    shape: tuple[int, ...]
    kind: int
    values: np.ndarray | None = None
    scale: npt.ArrayLike | None = None


class _Layer:
    """A fully connected layer that computes what ranks the rows of a database for a query."""

    def __init__(self, *tensors: _Tensor):
        from ai_edge_litert.interpreter import Interpreter

        with stderr_discarded():  # LiteRT announces its delegate
            self._interpreter = Interpreter(
                model_content=_layer_model(tensors), num_threads=cores()
            )
            self._interpreter.allocate_tensors()
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._output = self._interpreter.tensor(self._interpreter.get_output_details()[0]["index"])

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Returns a view [Q, N] for at most `_ROWS` rows [Q, D], valid until the next call."""
        count = len(rows)
        padded = np.pad(rows, [(0, _ROWS - count), (0, 0)]) if count < _ROWS else rows
        self._interpreter.set_tensor(self._input, padded)
        self._interpreter.invoke()
        return self._output()[:count]


class _EuclideanLayer(_Layer):
    """Half the squared distances to a database, less ½, by a layer of −d and |d|² / 2."""

    def __init__(self, database: np.ndarray):
        from ai_edge_litert.schema_py_generated import TensorType as Kind

        kernel = -np.asarray(database, np.float32)
        size, dimension = kernel.shape
        scale = np.maximum(np.abs(kernel).max(axis=1) / 127, np.finfo(np.float32).tiny)
        levels = np.rint(kernel / scale[:, np.newaxis]).astype(np.int8)
        super().__init__(
            _Tensor((_ROWS, dimension), Kind.FLOAT32),
            _Tensor(levels.shape, Kind.INT8, levels, scale),
            _Tensor((size,), Kind.FLOAT32, np.square(kernel).sum(axis=1) / 2),
            _Tensor((_ROWS, size), Kind.FLOAT32),
        )

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns a view [Q, N] for at most `_ROWS` queries [Q, D], valid until the next call."""
        rows = np.ascontiguousarray(queries, np.float32)
        compared = self.apply(rows)
        squares = np.square(rows).sum(axis=1, keepdims=True)
        if np.abs(squares - 1).max() > _UNIT:
            compared += (squares - 1) / 2
        return compared


class _HammingLayer(_Layer):
    """Hamming distances to a database, less half the bits, as int8: products of signs, halved."""

    def __init__(self, database: np.ndarray):
        from ai_edge_litert.schema_py_generated import TensorType as Kind

        signs = -_signs(database)
        size, bits = signs.shape
        super().__init__(
            _Tensor((_ROWS, bits), Kind.INT8, None, 1),
            _Tensor(signs.shape, Kind.INT8, signs, 1),
            _Tensor((size,), Kind.INT32, np.zeros(size, np.int32), 1),
            _Tensor((_ROWS, size), Kind.INT8, None, 2),
        )

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns a view [Q, N] for at most `_ROWS` packed queries, valid until the next call."""
        return self.apply(_signs(queries))


def _signs(packed: np.ndarray) -> np.ndarray:
    """Returns ±1, int8 [N, bits], of packed bits [N, bits / 8]."""
    return np.unpackbits(packed, axis=1).astype(np.int8) * np.int8(2) - np.int8(1)


def _layer_model(layer: Sequence[_Tensor]) -> bytes:
    """Returns a .tflite model of a layer: of its input, kernel, bias and output."""
    from ai_edge_litert import schema_py_generated as schema

    buffers, tensors = [schema.BufferT()], []
    for shape, kind, values, scale in layer:
        tensor = schema.TensorT()
        tensor.shape, tensor.type = np.array(shape, np.int32), kind
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            tensor.buffer = len(buffers)
            buffers.append(buffer)
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(scale).astype(np.float32)
            tensor.quantization.zeroPoint = np.zeros(np.size(scale), np.int64)
        tensors.append(tensor)
    operator, code, graph, model = (
        schema.OperatorT(),
        schema.OperatorCodeT(),
        schema.SubGraphT(),
        schema.ModelT(),
    )
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 9  # the first with a scale for every row of the kernel
    operator.inputs, operator.outputs = np.array([0, 1, 2], np.int32), np.array([3], np.int32)
    operator.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    operator.builtinOptions = schema.FullyConnectedOptionsT()
    graph.tensors, graph.operators = tensors, [operator]
    graph.inputs, graph.outputs = operator.inputs[:1], operator.outputs
    model.version, model.operatorCodes, model.subgraphs, model.buffers = 3, [code], [graph], buffers
    builder = flatbuffers.Builder()  # which grows
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
