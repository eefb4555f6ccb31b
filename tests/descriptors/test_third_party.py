"""Descriptors of others: functions always, ONNX and TorchScript files where they can be run."""

import copy
import pathlib
import pickle
import re
import sys

import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import load_model
from doap_tf.matching import DescriptorExtractor
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from doap_tf.preprocessing import resize_patches
from doap_tf.zoo import load_descriptor

HOWTO = pathlib.Path(__file__).parents[2] / "docs/howto.md"
PATCHES = np.random.default_rng(0).integers(0, 256, (11, 65, 65), np.uint8)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes code as the module `rival` of the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "rival", raising=False)

    def write(code):
        (tmp_path / "rival.py").write_text(code)
        return "rival:describe"

    yield write
    sys.modules.pop("rival", None)


def test_a_function_and_its_defaults(module):
    name = module(
        "sizes = []\n"
        "def describe(patches):\n"
        "    assert patches.dtype == 'uint8' and patches.shape[1:] == (32, 32)\n"
        "    sizes.append(len(patches))\n"
        "    return patches.reshape(len(patches), -1)[:, :5] / 2.0\n"
    )
    descriptor = load_descriptor(name)
    assert (descriptor.norm, descriptor.dimension) == (NORM_L2, 5)
    assert (descriptor.input_size, descriptor.magnification) == (32, 12.0)
    rows = descriptor.describe(PATCHES, batch_size=4)
    resized = np.rint(resize_patches(PATCHES[..., np.newaxis], 32).numpy()[:, 0, :5, 0])
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, resized / 2)
    assert sys.modules["rival"].sizes[-3:] == [4, 4, 3]
    assert descriptor.describe(PATCHES[:0]).shape == (0, 5)
    assert repr(descriptor) == "ThirdPartyDescriptor(rival:describe, 5 floats)"
    for same in (copy.deepcopy(descriptor), pickle.loads(pickle.dumps(descriptor))):
        np.testing.assert_array_equal(same(PATCHES), rows)


def test_a_function_says_what_it_wants_and_returns_bits(module):
    name = module(
        "def describe(patches):\n"
        "    return patches[:, 0, :3]\n"
        "describe.input_size = 40\n"
        "describe.magnification = 7.5\n"
    )
    descriptor = load_descriptor(name)
    assert (descriptor.norm, descriptor.dimension) == (NORM_HAMMING, 24)
    small = PATCHES[:, :40, :40]
    np.testing.assert_array_equal(descriptor.describe(small), small[:, 0, :3])
    extractor = DescriptorExtractor(name, max_keypoints=20)
    assert extractor.settings()["magnification"] == 7.5
    assert extractor.extract(np.tile(PATCHES[0], (3, 3))).descriptors.shape[1:] == (3,)


def test_two_functions_are_told_apart(module):
    code = "def describe(patches):\n    return patches[:, {}, :4] * 1.0\n"
    first = load_model(module(code.format(0)))
    del sys.modules["rival"]
    second = load_model(module(code.format(10)))
    assert first.name == "rival:describe"
    assert first.weights_sha256 != second.weights_sha256 and first.identity != second.identity


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("describe = 3\n", "rival has no function describe"),
        ("import no_such_package\n", "needs no_such_package.*pip install no_such_package"),
        ("def describe(p): return p[:, 0, 0] * 1.0\n", r"the shape \[2\] for 2 patches"),
        ("def describe(p): return p[:1, 0] * 1.0\n", r"the shape \[1, 32\] for 2 patches"),
        ("def describe(p): return p[:, 0].astype(int)\n", "returns int64; .* floats, or packed"),
        ("def describe(p): return [[1.0] * len(p)] * len(p)\n", r"float32 \[11, 11\] after"),
    ],
)
def test_bad_functions_are_one_line(module, code, named):
    name = module(code)
    with pytest.raises(InputError, match=named):
        load_descriptor(name).describe(PATCHES)


def test_missing_modules_are_named(module):
    module("")
    with pytest.raises(InputError, match="there is no module rivals in"):
        load_descriptor("rivals:describe")
    with pytest.raises(InputError, match=r"there is no module rival\.net in"):
        load_descriptor("rival.net:describe")


@pytest.mark.parametrize(("file", "package"), [("a.onnx", "onnxruntime"), ("a.pt", "torch")])
def test_missing_packages_are_named(tmp_path, monkeypatch, file, package):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / file).touch()
    with pytest.raises(InputError, match=rf"{file} needs {package}.*: pip install {package}$"):
        load_descriptor(tmp_path / file)
    with pytest.raises(InputError, match=r"absent\.onnx' is neither a file"):
        load_descriptor(tmp_path / "absent.onnx")


def test_the_howto(module):
    text = re.search(r"## Compare with another network\n(.*?)\n## ", HOWTO.read_text(), re.S)[1]
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    descriptor = load_descriptor(module(code))
    assert descriptor.input_size != 32 and descriptor.magnification != 12
    assert f"{descriptor.dimension}" in code
    assert descriptor.describe(PATCHES).shape == (11, descriptor.dimension)


# What runtimes are given


def standardised(patches, size):
    values = resize_patches(patches[..., np.newaxis], size).numpy().reshape(len(patches), -1)
    return (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)


def write_onnx(path, shape, weights):
    """A linear network on patches of this input shape."""
    onnx = pytest.importorskip("onnx")
    helper, number = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["patches"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["descriptors"]),
        ],
        "linear",
        [helper.make_tensor_value_info("patches", number, shape)],
        [helper.make_tensor_value_info("descriptors", number, [shape[0], weights.shape[1]])],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        (["n", 1, 32, 32], 32),
        ([4, 1, 32, 32], 32),
        (["n", 1, "h", "w"], 32),
        (["n", 1, 24, 24], 24),
        (["n", 40, 40, 1], 40),
    ],
)
def test_onnx_files(tmp_path, shape, size):
    pytest.importorskip("onnxruntime")
    weights = np.random.default_rng(1).standard_normal((size**2, 7)).astype(np.float32)
    write_onnx(tmp_path / "net.onnx", shape, weights)
    descriptor = load_descriptor(tmp_path / "net.onnx")
    assert (descriptor.input_size, descriptor.dimension, descriptor.norm) == (size, 7, NORM_L2)
    expected = standardised(PATCHES, size) @ weights
    np.testing.assert_allclose(descriptor.describe(PATCHES, 6), expected, atol=1e-3)
    flat = np.zeros((1, 65, 65), np.uint8)
    assert (descriptor.describe(flat) == 0).all()


def test_onnx_files_are_told_apart_and_checked(tmp_path):
    pytest.importorskip("onnxruntime")
    for name, seed in (("a", 0), ("b", 1)):
        weights = np.random.default_rng(seed).standard_normal((1024, 4)).astype(np.float32)
        write_onnx(tmp_path / f"{name}.onnx", ["n", 1, 32, 32], weights)
    first, second = (load_model(str(tmp_path / f"{name}.onnx")) for name in "ab")
    assert (first.name, second.name) == ("a", "b")
    assert first.identity != second.identity and first.weights_sha256 != second.weights_sha256
    write_onnx(tmp_path / "colour.onnx", ["n", 3, 32, 32], np.ones((3072, 4), np.float32))
    with pytest.raises(InputError, match=r"colour\.onnx does not take .*\[2, 1, 32, 32\]"):
        load_descriptor(tmp_path / "colour.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"bad\.onnx cannot be read as an ONNX model"):
        load_descriptor(tmp_path / "bad.onnx")


def test_torchscript_files(tmp_path):
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(1024, 6)
    torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), linear)).save(tmp_path / "net.pt")
    model = load_model(str(tmp_path / "net.pt"))
    assert (model.name, model.descriptor.dimension) == ("net", 6)
    with torch.inference_mode():
        expected = linear(torch.from_numpy(standardised(PATCHES, 32))).numpy()
    np.testing.assert_allclose(model.descriptor.describe(PATCHES, 5), expected, atol=1e-4)
    torch.save(linear.state_dict(), tmp_path / "weights.pt")
    with pytest.raises(InputError, match=r"weights\.pt is not a TorchScript file"):
        load_descriptor(tmp_path / "weights.pt")
