"""Models for LiteRT that compute in 8 bits, made of models in float32, without TensorFlow.

`add_ranges` notes in a model between which values its activations lie, where float32 ignores it;
`quantize` makes the model of 8 bits. A model that ships is thus stored once for both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded
from doap_tf.tflite_metadata import pack, unpack

_FEWEST_CHANNELS = 8  # images and scores have fewer: they need more than 8 bits, and cost little
_VERSIONS = {"ADD": 2, "CONV_2D": 3, "DEPTH_TO_SPACE": 2}  # the first of each that take int8
_LARGEST = 127  # of a weight
_SMALLEST = 1e-30  # end of a range, so that steps are not zero
_OUTLIERS = 1e-4  # share of the activations of an example beyond each end of its range


def add_ranges(model: bytes, signature: str, examples: Iterable[Mapping[str, np.ndarray]]) -> bytes:
    """Returns a model with the ranges that the activations of a signature have on examples.

    Args:
        model: Contents of a .tflite file in float32.
        signature: Its name.
        examples: Values of its inputs, by name.
    """
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    tree = unpack(model)
    (number,) = (
        each.subgraphIndex for each in tree.signatureDefs if each.signatureKey == signature.encode()
    )
    graph = tree.subgraphs[number]
    ranges: dict[int, tuple[float, float]] = {
        int(index): (0.0, 0.0)
        for operator in graph.operators
        for index in operator.outputs
        if len(graph.tensors[index].shape) == 4
        and graph.tensors[index].shape[-1] >= _FEWEST_CHANNELS
    }
    for values in examples:
        with stderr_discarded():
            interpreter = Interpreter(
                model_content=model,
                num_threads=cores(),
                experimental_preserve_all_tensors=True,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
        interpreter.get_signature_runner(signature)(**values)
        for index, (least, most) in ranges.items():
            activations = interpreter.get_tensor(index, number)
            ends = np.quantile(activations, [_OUTLIERS, 1 - _OUTLIERS])
            ranges[index] = min(least, ends[0]), max(most, ends[1])
    for index, (least, most) in ranges.items():
        noted = schema.QuantizationParametersT()
        noted.min, noted.max = np.array([least], np.float32), np.array([most], np.float32)
        graph.tensors[index].quantization = noted
    return pack(tree)


def quantize(model: bytes) -> bytes:
    """Returns a model of `add_ranges` whose operations compute in 8 bits where ranges are known.

    Inputs and outputs stay in float32. Kernels have a step of their own for each output.
    """
    tree = unpack(model)
    shared: dict[int, int] = {}
    for graph in tree.subgraphs:
        _GraphQuantizer(tree, graph, shared).run()
    used = {tensor.buffer for graph in tree.subgraphs for tensor in graph.tensors}
    used |= {entry.buffer for entry in tree.metadata or []}
    for number, buffer in enumerate(tree.buffers):
        if number not in used:
            buffer.data = None
    return pack(tree)


class _GraphQuantizer:
    """Rewrites one graph of a tree, operation by operation.

    Args:
        tree: A model.
        graph: Of that model.
        kernels: Buffers of kernels in int8 by those in float32, which all graphs share.
    """

    def __init__(self, tree: Any, graph: Any, kernels: dict[int, int]):
        from ai_edge_litert import schema_py_generated as schema

        self._schema, self._tree, self._graph, self._kernels = schema, tree, graph, kernels
        self._names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
        self._operators: list[Any] = []
        self._in_float = {
            index
            for index, tensor in enumerate(graph.tensors)
            if index in graph.inputs or tree.buffers[tensor.buffer].data is not None
        }
        self._in_int8: dict[int, int] = {}  # tensors, and those that hold the same in int8

    def run(self) -> None:
        for operator in self._graph.operators:
            name = self._names[self._tree.operatorCodes[operator.opcodeIndex].builtinCode]
            if self._is_quantized(name, operator):
                self._add_in_int8(name, operator)
            else:
                for index in operator.inputs:
                    self._dequantize(index)
                self._operators.append(operator)
                self._in_float.update(map(int, operator.outputs))
        for index in self._graph.outputs:
            self._dequantize(index)
        self._graph.operators = self._operators
        kept = {int(i) for each in self._operators for i in (*each.inputs, *each.outputs)}
        for index, tensor in enumerate(self._graph.tensors):
            if index not in kept:
                tensor.buffer = 0
            elif tensor.type == self._schema.TensorType.FLOAT32:
                tensor.quantization = None

    def _is_quantized(self, name: str, operator: Any) -> bool:
        activations = [*operator.inputs[: 1 if name == "CONV_2D" else None], *operator.outputs]
        return name in _VERSIONS and all(self._range(index) for index in activations)

    def _range(self, index: int) -> tuple[float, float] | None:
        noted = self._graph.tensors[index].quantization
        if noted is None or noted.min is None or not len(noted.min):
            return None
        return float(noted.min[0]), float(noted.max[0])

    def _add_in_int8(self, name: str, operator: Any) -> None:
        operator = copy.copy(operator)
        first, *others = map(int, operator.inputs)
        (output,) = map(int, operator.outputs)
        if name == "CONV_2D":
            kernel, bias = others
            operator.inputs = [self._quantize(first), *self._weights(first, kernel, bias)]
        else:
            operator.inputs = [self._quantize(index) for index in (first, *others)]
        if name == "DEPTH_TO_SPACE":
            like = self._graph.tensors[operator.inputs[0]].quantization
            twin = self._add_tensor(output, "INT8", 0, like)
        else:
            twin = self._add_activations(output)
        self._in_int8[output] = twin
        operator.outputs = [twin]
        operator.opcodeIndex = self._code(name, _VERSIONS[name])
        self._operators.append(operator)

    def _quantize(self, index: int) -> int:
        """Returns the tensor that holds another in int8, computed before here or here."""
        if index not in self._in_int8:
            self._in_int8[index] = self._add_activations(index)
            self._add_operator("QUANTIZE", 1, index, self._in_int8[index])
        return self._in_int8[index]

    def _dequantize(self, index: int) -> None:
        if index in self._in_int8 and index not in self._in_float:
            self._add_operator("DEQUANTIZE", 2, self._in_int8[index], index)
            self._in_float.add(int(index))

    def _weights(self, inputs: int, kernel: int, bias: int) -> tuple[int, int]:
        """Kernel in int8 and bias in int32, in the steps of the products."""
        values = self._values(kernel)
        largest = np.abs(values).reshape(len(values), -1).max(axis=1)
        steps = np.maximum(largest, _SMALLEST) / _LARGEST
        stored = self._graph.tensors[kernel].buffer
        if stored not in self._kernels:
            rounded = np.rint(values / steps[:, np.newaxis, np.newaxis, np.newaxis])
            self._kernels[stored] = self._add_buffer(rounded.astype(np.int8))
        (step,) = self._graph.tensors[self._in_int8[inputs]].quantization.scale
        products = (step * steps).astype(np.float32)
        shift = np.rint(self._values(bias) / products.astype(np.float64)).clip(-(2**31), 2**31 - 1)
        shifts = self._add_buffer(shift.astype(np.int32))
        return (
            self._add_tensor(kernel, "INT8", self._kernels[stored], self._steps(steps)),
            self._add_tensor(bias, "INT32", shifts, self._steps(products)),
        )

    def _values(self, index: int) -> np.ndarray:
        tensor = self._graph.tensors[index]
        data = bytes(self._tree.buffers[tensor.buffer].data)
        return np.frombuffer(data, np.float32).reshape(tensor.shape)

    def _add_activations(self, index: int) -> int:
        least, most = self._range(index) or (0.0, 0.0)
        step = max(most - least, _SMALLEST) / 255
        return self._add_tensor(index, "INT8", 0, self._steps([step], round(-128 - least / step)))

    def _add_buffer(self, values: np.ndarray) -> int:
        buffer = self._schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self._tree.buffers.append(buffer)
        return len(self._tree.buffers) - 1

    def _add_tensor(self, like: int, kind: str, buffer: int, steps: Any) -> int:
        tensor = copy.copy(self._graph.tensors[like])
        tensor.name = tensor.name + f"_{kind.lower()}".encode()
        tensor.type = getattr(self._schema.TensorType, kind)
        tensor.buffer, tensor.quantization = buffer, steps
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def _steps(self, steps: Any, zero: int = 0) -> Any:
        parameters = self._schema.QuantizationParametersT()
        parameters.scale = np.asarray(steps, np.float32)
        parameters.zeroPoint = np.full(len(parameters.scale), zero, np.int64)
        return parameters

    def _add_operator(self, name: str, version: int, given: int, result: int) -> None:
        operator = self._schema.OperatorT()
        operator.opcodeIndex = self._code(name, version)
        operator.inputs, operator.outputs = [given], [result]
        self._operators.append(operator)

    def _code(self, name: str, version: int) -> int:
        builtin, codes = getattr(self._schema.BuiltinOperator, name), self._tree.operatorCodes
        for number, code in enumerate(codes):
            if code.builtinCode == builtin and code.version >= version:
                return number
        code = self._schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = builtin
        code.version = version
        codes.append(code)
        return len(codes) - 1
