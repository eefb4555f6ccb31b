import contextlib
import functools
import io
import warnings

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

import doap_tf
from doap_tf import tflite_metadata
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.errors import InputError
from doap_tf.export import PRECISIONS, convert_to_tflite, export_tflite, tflite
from doap_tf.export.comparison import agreement
from doap_tf.metrics import matching_average_precision
from doap_tf.networks import DescriptorNetwork


@pytest.fixture(scope="module")
def files(networks, groups, tmp_path_factory):
    """Paths of .tflite files by network and precision, and of one with a fixed batch."""
    directory = tmp_path_factory.mktemp("tflite")
    representative = groups.patches[-64:]
    paths = {}
    for name, network in networks.items():
        precisions = ["int8"] if name == "real_st" else PRECISIONS
        for path in export_tflite(network, directory, name, precisions, [None], representative):
            paths[name, path.stem.rsplit("-", 1)[1]] = path
    (paths["binary_st", "fixed"],) = export_tflite(
        networks["binary_st"], directory, "binary_st", ["int8"], [7], representative
    )
    return paths


@pytest.fixture(scope="module")
def measure(networks, groups, files):
    """Agreement with the Keras network, and matching mAP of both, by network and precision."""
    patches = groups.patches[:-64]

    @functools.cache
    def quality(descriptor):
        rows = descriptor.describe(patches)
        return rows, matching_average_precision(rows[::2], rows[1::2], descriptor.norm)

    references = {name: Descriptor(network) for name, network in networks.items()}

    def compare(name: str, precision: str) -> tuple[dict[str, float], float]:
        expected, best = quality(references[name])
        found, reached = quality(doap_tf.from_pretrained(files[name, precision]))
        return agreement(expected, found), 100 * (reached - best)

    return compare


@pytest.mark.parametrize(
    ("name", "precision", "cosine"),
    [
        ("real", "float32", 0.999999),
        ("real", "float16", 0.99999),
        ("real", "int8", 0.99),
        ("real_st", "int8", 0.99),
    ],
)
def test_real_descriptors_agree_with_the_network(measure, name, precision, cosine):
    agreed, points = measure(name, precision)
    assert agreed["cosine_mean"] >= cosine
    assert abs(points) <= 1.0


@pytest.mark.parametrize(
    ("precision", "bits", "within"),
    # The toy's bits were not trained: a hundredth of them moves its mAP by points, up or down.
    [("float32", 0.9999, 1.0), ("float16", 0.999, 1.0), ("int8", 0.97, 5.0)],
)
def test_binary_descriptors_agree_with_the_network(measure, precision, bits, within):
    agreed, points = measure("binary_st", precision)
    assert agreed["bits_equal"] >= bits
    assert abs(points) <= within


@pytest.mark.parametrize("trunk", ["fast", "tiny"])
def test_trunks_for_cpus_agree_with_the_network(trunk, groups, tmp_path):
    network = DescriptorNetwork(64, "binary", trunk=trunk)
    for _ in range(10):
        network(tf.image.resize(groups.patches[:64, ..., np.newaxis], [32, 32]), training=True)
    (path,) = export_tflite(network, tmp_path, trunk, ["float32"])
    patches = groups.patches[-64:]
    expected = Descriptor(network).describe(patches)
    assert (
        agreement(expected, doap_tf.from_pretrained(path).describe(patches))["bits_equal"] > 0.999
    )
    assert len(np.unique(expected, axis=0)) > 60


def test_a_shipped_network_matches_in_int8_as_in_keras(groups, tmp_path):
    shipped = doap_tf.from_pretrained("doap-mobile-256b")
    (path,) = export_tflite(
        shipped.to_keras(), tmp_path, "mobile", ["int8"], [None], groups.patches[-64:]
    )
    rows, small = (
        descriptor.describe(groups.patches[:-64])
        for descriptor in (shipped, doap_tf.from_pretrained(path))
    )
    assert agreement(rows, small)["bits_equal"] >= 0.96
    expected, found = (
        matching_average_precision(values[::2], values[1::2], shipped.norm)
        for values in (rows, small)
    )
    assert expected > 0.9
    assert abs(found - expected) <= 0.01


def test_a_fixed_batch_size_changes_nothing(files, groups):
    patches = groups.patches[:17]
    free, fixed = (doap_tf.from_pretrained(files["binary_st", kind]) for kind in ("int8", "fixed"))
    assert agreement(free.describe(patches), fixed.describe(patches))["bits_equal"] > 0.99
    shape = Interpreter(str(files["binary_st", "fixed"])).get_input_details()[0]["shape_signature"]
    assert shape.tolist() == [7, 42, 42, 1]


def test_int8_takes_patches_of_any_scale(files, groups):
    """Ranges were taken from grey values up to 255; standardisation must not depend on them."""
    descriptor = doap_tf.from_pretrained(files["real_st", "int8"])
    patches = groups.patches[:50]
    expected = descriptor.describe(patches)
    for scale, offset in ((1 / 255, 0.0), (100.0, -5000.0)):
        found = descriptor.describe(patches.astype(np.float32) * scale + offset)
        assert agreement(expected, found)["cosine_min"] > 0.999


def _operations(path) -> list[tuple[str, str]]:
    """Operator and output type of every operation of a file."""
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    operators = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    types = {code: name for name, code in vars(schema.TensorType).items()}
    (graph,) = model.subgraphs
    return [
        (
            operators[model.operatorCodes[operation.opcodeIndex].builtinCode],
            types[graph.tensors[operation.outputs[0]].type],
        )
        for operation in graph.operators
    ]


def test_only_the_trunk_after_its_first_convolution_is_quantised(files):
    operations = _operations(files["real_st", "int8"])
    kinds = [kind for operator, kind in operations if operator == "CONV_2D"]
    assert kinds == ["FLOAT32"] * 4 + ["INT8"] * 5
    products = [kind for operator, kind in operations if operator == "FULLY_CONNECTED"]
    assert products == ["FLOAT32"] * 2 + ["INT8"]  # two of the transformer, the last kernel
    assert {operator for operator, kind in operations if kind == "INT8"} == {
        "QUANTIZE",
        "CONV_2D",
        "RESHAPE",
        "FULLY_CONNECTED",
    }


def test_files_hold_builtin_operators_only(files):
    operators = {operator for path in files.values() for operator, _ in _operations(path)}
    assert not operators & {"CUSTOM", "DELEGATE", "READ_VARIABLE", "VAR_HANDLE", "GATHER_ND"}


def test_smaller_precisions_make_smaller_files(files):
    sizes = [files["real", precision].stat().st_size for precision in PRECISIONS]
    assert sizes[1] < 0.55 * sizes[0]
    assert sizes[2] < 0.3 * sizes[0]


def test_models_with_a_fixed_batch_suit_mobile_gpus(networks):
    model = convert_to_tflite(networks["binary_st"], batch_size=16)
    report = io.StringIO()
    with contextlib.redirect_stdout(report), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tf.lite.experimental.Analyzer.analyze(model_content=model, gpu_compatibility=True)
    assert "looks compatible with GPU delegate" in report.getvalue()


def test_metadata_is_inside_the_file(files, networks):
    metadata = tflite_metadata.read(files["binary_st", "fixed"].read_bytes())
    network = Descriptor(networks["binary_st"])
    wanted = {
        "input_size": 42,
        "head": "binary",
        "output_dim": 128,
        "magnification": 4.0,
        "precision": "int8",
        "batch_size": 7,
        "weights_sha256": network.weights_sha256,
    }
    assert {key: metadata[key] for key in wanted} == wanted
    assert "standard deviation" in metadata["normalization"]


def test_descriptor_takes_a_tflite_file_like_any_other_model(files):
    descriptor = doap_tf.from_pretrained(files["binary_st", "int8"])
    assert (descriptor.norm, descriptor.dimension, descriptor.magnification) == (6, 128, 4.0)
    assert descriptor.describe(np.zeros([0, 20, 20], np.uint8)).shape == (0, 16)
    other = doap_tf.from_pretrained(files["binary_st", "float32"])
    assert descriptor.weights_sha256 != other.weights_sha256


def test_damaged_files_are_refused_in_one_line(files, tmp_path):
    whole = files["real", "float32"].read_bytes()
    path = tmp_path / "damaged.tflite"
    for contents in (b"", b"not a model", whole[:1000], whole[: len(whole) // 2], whole[:-50]):
        path.write_bytes(contents)
        with pytest.raises(InputError, match=r"damaged\.tflite"):
            doap_tf.from_pretrained(path)


def test_bad_arguments_are_refused():
    network = DescriptorNetwork(8, width=0.1)
    with pytest.raises(InputError, match="int4"):
        convert_to_tflite(network, "int4")
    for patches in (None, np.zeros([0, 32, 32], np.uint8)):
        with pytest.raises(InputError, match="representative"):
            convert_to_tflite(network, "int8", representative_patches=patches)


def test_a_failed_conversion_leaves_old_files_alone(tmp_path, monkeypatch):
    old = tmp_path / "toy-float32.tflite"
    old.write_bytes(b"old")

    def convert(_, precision, *__):
        if precision == "int8":
            raise InputError("no patches")
        return b"new"

    monkeypatch.setattr(tflite, "convert_to_tflite", convert)
    with pytest.raises(InputError):
        export_tflite(None, tmp_path, "toy", ["float32", "int8"])
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"old"]
