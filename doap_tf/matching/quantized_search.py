"""Nearest neighbours by products of 8-bit integers, whose nearest few are compared exactly.

The descriptors of one image become the kernel of a fully connected layer, which LiteRT applies to
those of the other: every processor has fast instructions for that, and NumPy uses none of them.
"""

import flatbuffers
import numpy as np

from doap_tf.metrics.distances import (
    NORM_HAMMING,
    note_nearest_rows,
    paired_distances,
    smallest_per_row,
)
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded

_UNIT = 1e-4  # by which squared lengths differ from 1 that rounding to 8 bits does not notice
_EXTREMES = np.array([-127, 127], np.float32)  # of a query of signs
_ROWS = 128  # compared at a time, so that what is computed stays in the processor's cache


def nearest_quantized(
    queries: np.ndarray, database: np.ndarray, norm: int, k: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what `doap_tf.metrics.nearest_both_ways` does, for floats up to rounding to 8 bits.

    Rounding decides only which neighbours are compared, at least two of every query. Among them
    order and distances are exact. Bits are not rounded.

    Args:
        queries: [Q, D], finite, or packed bits [Q, bits / 8]; Q > 0.
        database: [N, D], finite, or packed bits [N, bits / 8]; N ≥ 2 and N ≥ k.
        norm: NORM_L2 or NORM_HAMMING.
        k: Number of neighbours; small.

    Returns:
        Indices int64 [Q, k], distances float32 [Q, k], and the nearest query of every descriptor of
        the database, int64 [N].
    """
    candidates = np.empty((len(queries), max(2, k)), np.int64)
    back = np.empty(len(database), np.int64)
    least = np.full(len(database), np.inf, np.float32)
    layer = (_HammingLayer if norm == NORM_HAMMING else _EuclideanLayer)(database)
    for start in range(0, len(queries), _ROWS):
        rows = slice(start, start + _ROWS)
        compared = layer.compare(queries[rows])
        note_nearest_rows(compared, start, least, back)
        candidates[rows] = smallest_per_row(compared, candidates.shape[1])[0]
        del compared  # a view of what the layer computes next
    query_rows = np.repeat(np.arange(len(queries)), candidates.shape[1])
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


class _Layer:
    """A fully connected layer that computes what ranks the rows of a database for a query."""

    def __init__(self, kernel: np.ndarray, bias: np.ndarray):
        from ai_edge_litert.interpreter import Interpreter

        with stderr_discarded():  # LiteRT announces its delegate
            self._interpreter = Interpreter(
                model_content=_layer_model(kernel, bias), num_threads=cores()
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
        database = np.asarray(database, np.float32)
        super().__init__(-database, np.square(database).sum(axis=1) / 2)

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns a view [Q, N] for at most `_ROWS` queries [Q, D], valid until the next call."""
        rows = np.ascontiguousarray(queries, np.float32)
        compared = self.apply(rows)
        squares = np.square(rows).sum(axis=1, keepdims=True)
        if np.abs(squares - 1).max() > _UNIT:
            compared += (squares - 1) / 2
        return compared


class _HammingLayer(_Layer):
    """What orders a database as Hamming distances do, equal ones too: minus products of signs.

    LiteRT scales every query to 8 bits by its extremes. Two more values, of weight zero, make the
    scale the same for all and keep −1 and 1 symmetric.
    """

    def __init__(self, database: np.ndarray):
        signs = _signs(database)
        super().__init__(-np.pad(signs, [(0, 0), (0, 2)]), np.zeros(len(signs), np.float32))

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns a view [Q, N] for at most `_ROWS` packed queries, valid until the next call."""
        extremes = np.broadcast_to(_EXTREMES, (len(queries), 2))
        return self.apply(np.hstack([_signs(queries), extremes]))


def _signs(packed: np.ndarray) -> np.ndarray:
    """Returns ±1, float32 [N, bits], of packed bits [N, bits / 8]."""
    return np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1


def _layer_model(kernel: np.ndarray, bias: np.ndarray) -> bytes:
    """Returns a .tflite model of a layer with a kernel [N, D], in 8 bits, and a bias [N]."""
    from ai_edge_litert import schema_py_generated as schema

    (size, dimension), types = kernel.shape, schema.TensorType
    scales = np.maximum(np.abs(kernel).max(axis=1) / 127, np.finfo(np.float32).tiny)
    levels = np.rint(kernel / scales[:, np.newaxis]).astype(np.int8)
    quantization = schema.QuantizationParametersT()
    quantization.scale = scales.astype(np.float32)
    quantization.zeroPoint = np.zeros(size, np.int64)
    buffers, tensors = [schema.BufferT()], []
    for shape, kind, values in (
        ((_ROWS, dimension), types.FLOAT32, None),
        (levels.shape, types.INT8, levels),
        (bias.shape, types.FLOAT32, bias),
        ((_ROWS, size), types.FLOAT32, None),
    ):
        tensor = schema.TensorT()
        tensor.shape, tensor.type = np.array(shape, np.int32), kind
        if values is not None:
            buffer = schema.BufferT()
            buffer.data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            tensor.buffer = len(buffers)
            buffers.append(buffer)
        tensors.append(tensor)
    tensors[1].quantization = quantization
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
    builder = flatbuffers.Builder(levels.nbytes + 8 * size + 1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
