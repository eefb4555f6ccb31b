"""Shows where the time goes in the .tflite files of networks, operation by operation.

python benchmarks/litert_profile.py
python benchmarks/litert_profile.py --models=doap-dense-small-256b --precisions=float32,int8

Networks of whole images read one of 640 × 480 pixels (their signature `read`).

LiteRT's Python interface has no profiler. So every operation is cut out of its file, given the
values that it has there, and timed alone; what the whole takes besides the sum of its operations
is the rest. Operations that XNNPACK leaves to LiteRT's own kernels are marked.
"""

import copy
import itertools
import os
import pathlib
import sys
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from absl import flags

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import measuring

from doap_tf import command_line
from doap_tf.drawing.tables import Table
from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded
from doap_tf.tflite_metadata import pack, unpack

FLAGS = flags.FLAGS
flags.DEFINE_list("models", ["doap-128", "doap-mobile-256b"], "Networks.")
flags.DEFINE_list(
    "precisions",
    ["float32", "dynamic", "int8"],
    "Those of export_main.py, or dynamic: weights of 8 bits, activations quantised as they come.",
)
flags.DEFINE_list("batch_sizes", ["1", "16", "64", "256"], "Patches at a time, of whole files.")
flags.DEFINE_list("threads", ["1", str(cores())], "Numbers of threads, of whole files.")
flags.DEFINE_integer("batch_size", 16, "Patches at a time, of single operations; one thread.")

_CALIBRATION = 256  # patches from which int8 takes its ranges


def main(argv: Sequence[str]) -> None:
    del argv
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # before TensorFlow looks for them
    from doap_tf.networks import DenseNetwork
    from doap_tf.zoo import load_keras

    measuring.print_setting("ai-edge-litert", "tensorflow")
    batch_sizes, threads = list(map(int, FLAGS.batch_sizes)), list(map(int, FLAGS.threads))
    for name in FLAGS.models:
        network = load_keras(name)
        if isinstance(network, DenseNetwork):
            _profile_reading(name, network, threads)
            continue
        patches = _patches(network, max(*batch_sizes, FLAGS.batch_size, _CALIBRATION))
        models = {each: _convert(network, each, patches) for each in FLAGS.precisions}
        _print_whole(name, models, patches, batch_sizes, threads)
        for precision, model in models.items():
            _print_operations(f"{name}, {precision}", model, [patches[: FLAGS.batch_size]])


def _profile_reading(name: str, network, threads: Sequence[int]) -> None:
    """The same for the signature `read` of a network of whole images."""
    import cv2
    import skimage.data

    from doap_tf.export import convert_dense_to_tflite

    image = cv2.resize(skimage.data.camera(), (640, 480))
    values = [
        image[np.newaxis, ..., np.newaxis].astype(np.float32),
        np.array([[image.mean(), image.std()]], np.float32),
    ]
    precisions = [each for each in FLAGS.precisions if each != "dynamic"]
    models = {
        each: _only_reading(convert_dense_to_tflite(network, precision=each)) for each in precisions
    }
    cases = list(itertools.product(models, threads))
    times = measuring.fastest(
        {str(case): _interpreter(models[case[0]], values, case[1]).invoke for case in cases}
    )
    rows: dict[str, dict[str, str]] = {}
    for precision, count in cases:
        milliseconds = f"{1e3 * times[str((precision, count))]:.1f}"
        rows.setdefault(precision, {})[f"{count} {'thread' if count == 1 else 'threads'}"] = (
            milliseconds
        )
    print(Table(rows, f"{name}, ms an image").markdown() + "\n", flush=True)
    for precision, model in models.items():
        _print_operations(f"{name}, {precision}", model, values, "µs an image")


def _only_reading(model: bytes) -> bytes:
    """The graph of the signature `read`, its inputs the image and its statistics."""
    tree = unpack(model)
    (signature,) = (each for each in tree.signatureDefs if each.signatureKey == b"read")
    graph = tree.subgraphs[signature.subgraphIndex]
    inputs = {each.name: each.tensorIndex for each in signature.inputs}
    graph.inputs = [inputs[b"images"], inputs[b"statistics"]]
    tree.subgraphs, tree.signatureDefs, tree.metadata = [graph], None, None
    return pack(tree)


def _patches(network, count: int) -> np.ndarray:
    """Patches of a photograph, float32 [count, S, S, 1]."""
    import skimage.data

    from doap_tf.features import cut_patches, detect

    image = skimage.data.camera()
    frames = np.resize(detect(image, "dog").frames, [count, 2, 3])
    patches = cut_patches(image, frames, network.input_size, network.magnification)
    return patches[..., np.newaxis].astype(np.float32)


def _convert(network, precision: str, patches: np.ndarray) -> bytes:
    import tensorflow as tf

    from doap_tf.export import convert_to_tflite
    from doap_tf.export.inference_network import FrozenNetwork

    if precision != "dynamic":
        calibration = patches[:_CALIBRATION, ..., 0]
        return convert_to_tflite(network, precision, representative_patches=calibration)
    frozen = FrozenNetwork(network)
    function = frozen.describe.get_concrete_function()
    with warnings.catch_warnings(), stderr_discarded():
        warnings.simplefilter("ignore")
        converter = tf.lite.TFLiteConverter.from_concrete_functions([function], frozen)
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        return converter.convert()


def _print_whole(
    name: str,
    models: dict[str, bytes],
    patches: np.ndarray,
    batch_sizes: Sequence[int],
    threads: Sequence[int],
) -> None:
    cases = list(itertools.product(models, threads, batch_sizes))
    times = measuring.fastest(
        {
            str(case): _interpreter(models[case[0]], [patches[: case[2]]], case[1]).invoke
            for case in cases
        }
    )
    rows: dict[str, dict[str, str]] = {}
    for precision, count, size in cases:
        row = rows.setdefault(f"{precision}, {count} {'thread' if count == 1 else 'threads'}", {})
        row[f"batches of {size}"] = f"{1e6 * times[str((precision, count, size))] / size:.0f}"
    print(Table(rows, f"{name}, µs a patch").markdown() + "\n", flush=True)


def _print_operations(
    title: str, model: bytes, inputs: Sequence[np.ndarray], heading: str = "µs a patch"
) -> None:
    functions: dict[str, Callable[[], object]] = {
        "the whole": _interpreter(model, inputs, 1).invoke
    }
    count = len(inputs[0])
    taken, arithmetic = {}, {}
    for number, (name, part, values, products) in enumerate(_operations(model, inputs)):
        label = f"{number} {name}"
        interpreter = _interpreter(part, values, 1)
        functions[label], arithmetic[label] = interpreter.invoke, products
        taken[label] = _delegated(interpreter)
    times = measuring.fastest(functions)
    whole = times.pop("the whole")
    rows = {
        label: {
            heading: f"{1e6 * seconds / count:.1f}",
            "share": f"{seconds / whole:.1%}",
            "10⁹ multiply-adds a second": (
                f"{1e-9 * arithmetic[label] / seconds:.1f}" if arithmetic[label] else ""
            ),
            "XNNPACK": "" if taken[label] else "no",
        }
        for label, seconds in times.items()
    }
    for label, seconds in {"rest": whole - sum(times.values()), "the whole": whole}.items():
        rows[label] = {
            heading: f"{1e6 * seconds / count:.1f}",
            "share": f"{seconds / whole:.1%}",
        }
    print(Table(rows, title).markdown() + "\n", flush=True)


def _operations(model: bytes, inputs: Sequence[np.ndarray]):
    """Yields name, model, input values and multiply-adds of every operation."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    reference = _interpreter(model, inputs, 1, whole=True)
    reference.invoke()
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    tree = schema.ModelT.InitFromPackedBuf(model, 0)
    (graph,) = tree.subgraphs
    operators, tensors = graph.operators, graph.tensors
    tree.signatureDefs = tree.metadata = None
    for operator in operators:
        inputs = [
            index
            for index in operator.inputs
            if index >= 0 and tree.buffers[tensors[index].buffer].data is None
        ]
        graph.operators, graph.inputs = [operator], inputs
        graph.outputs = operator.outputs
        builder = flatbuffers.Builder(len(model))
        builder.Finish(copy.copy(tree).Pack(builder), b"TFL3")
        values = [reference.get_tensor(index) for index in inputs]
        name = names[tree.operatorCodes[operator.opcodeIndex].builtinCode]
        products = 0
        if name in ("CONV_2D", "FULLY_CONNECTED"):
            kernel = tensors[operator.inputs[1]].shape
            products = reference.get_tensor(operator.outputs[0]).size * int(np.prod(kernel[1:]))
        elif name == "DEPTHWISE_CONV_2D":
            kernel = tensors[operator.inputs[1]].shape
            products = reference.get_tensor(operator.outputs[0]).size * int(np.prod(kernel[1:3]))
        yield name, bytes(builder.Output()), values, products


def _interpreter(model: bytes, values: Sequence[np.ndarray], threads: int, whole: bool = False):
    """An interpreter with its inputs set; `whole` keeps all tensors and uses no XNNPACK."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    resolver = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES if whole else OpResolverType.AUTO
    interpreter = Interpreter(
        model_content=model,
        num_threads=threads,
        experimental_op_resolver_type=resolver,
        experimental_preserve_all_tensors=whole,
    )
    inputs = interpreter.get_input_details()
    for detail, value in zip(inputs, values, strict=True):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    with stderr_discarded():  # LiteRT announces its delegate
        interpreter.allocate_tensors()
    for detail, value in zip(inputs, values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    return interpreter


def _delegated(interpreter) -> bool:
    return any(each["op_name"] == "DELEGATE" for each in interpreter._get_ops_details())


if __name__ == "__main__":
    command_line.run(main)
