"""The networks that ship, by LiteRT and by Keras."""

import ast
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf import catalogue
from doap_tf.catalogue import Entry
from doap_tf.descriptors.patch_resizing import resize
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from doap_tf.networks.network_file import write_weights
from doap_tf.zoo import graph_files, loading, tflite_files
from tests import layouts

TINY = {"width": 0.25, "output_dim": 16}
_CONVERTING = ("networks", "export", "tflite_quantization", "zoo")


@pytest.mark.parametrize("name", doap_tf.list_pretrained())
def test_litert_and_keras_agree(name):
    fast, exact = (doap_tf.from_pretrained(name, backend) for backend in ("litert", "keras"))
    assert (fast.backend, exact.backend) == ("litert", "keras")
    assert fast.precision == exact.precision == "float32"
    assert fast.weights_sha256 == exact.weights_sha256
    assert (fast.norm, fast.dimension, fast.input_size, fast.magnification) == (
        *(exact.norm, exact.dimension, exact.input_size, exact.magnification),
    )
    generator = np.random.default_rng(0)
    views = np.concatenate([layouts.views(generator, 2, 65, jitter=2.5) for _ in range(50)])
    found, wanted = fast.describe(views), exact.describe(views)
    if not fast.binary:
        np.testing.assert_allclose(found, wanted, atol=1e-5)
        return
    values = exact.to_keras()(resize(views[..., np.newaxis], exact.input_size)).numpy()
    different = np.unpackbits(found ^ wanted, axis=1).astype(bool)
    assert np.abs(values[different]).max(initial=0) < 1e-4 * np.abs(values).max()


def test_the_backend_follows_the_machine(monkeypatch):
    for gpu, backend in ((False, "litert"), (True, "keras")):
        monkeypatch.setattr(loading, "_has_gpu", lambda gpu=gpu: gpu)
        assert doap_tf.from_pretrained("doap-mobile-256b").backend == backend
    monkeypatch.undo()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert doap_tf.from_pretrained("doap-mobile-256b").backend == "litert"


def test_the_keras_network_is_a_copy_where_litert_runs_it():
    descriptor = doap_tf.from_pretrained("doap-128", "litert")
    patches = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    network = descriptor.to_keras()
    assert isinstance(network, DescriptorNetwork) and descriptor.backend == "litert"
    before = descriptor.describe(patches)
    np.testing.assert_allclose(network(patches[..., None]), before, atol=1e-5)
    network.set_weights([2 * weight + 0.1 for weight in network.get_weights()])
    np.testing.assert_array_equal(descriptor.describe(patches), before)
    with pytest.warns(DeprecationWarning, match="to_keras"):
        assert isinstance(descriptor.network, DescriptorNetwork)


def test_a_file_is_run_by_what_it_was_made_for(tmp_path):
    with pytest.raises(InputError, match="backend must be one of auto, keras, litert, not 'gpu'"):
        doap_tf.from_pretrained("doap-128", "gpu")
    file = tflite_files.tflite_file("doap-128")
    export = doap_tf.from_pretrained(file, "litert")
    with pytest.raises(InputError, match=r"litert runs cannot be turned into a Keras network"):
        export.to_keras()
    with pytest.warns(DeprecationWarning, match="to_keras"):
        assert export.network is None
    with pytest.raises(InputError, match=r"doap-128.*\.tflite is for the backend litert"):
        doap_tf.from_pretrained(file, "keras")
    write_weights(_tiny(), tmp_path / "mine.npz")
    assert doap_tf.from_pretrained(tmp_path / "mine.npz").backend == "keras"
    with pytest.raises(InputError, match=r"mine\.npz is for the backend keras, not litert"):
        doap_tf.from_pretrained(tmp_path / "mine.npz", "litert")


@pytest.mark.slow
def test_other_precisions_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    views = layouts.views(np.random.default_rng(0), 40, 32, jitter=2.5)
    exact = doap_tf.from_pretrained("doap-tiny-256b", "litert")
    rounded = doap_tf.from_pretrained("doap-tiny-256b", precision="int8")
    assert (rounded.backend, rounded.precision) == ("litert", "int8")
    assert rounded.weights_sha256 != exact.weights_sha256  # so that stores tell them apart
    different = np.unpackbits(rounded.describe(views) ^ exact.describe(views), axis=1).mean()
    assert 0 < different < 0.05
    with pytest.raises(InputError, match="backend keras computes in float32, not int8"):
        doap_tf.from_pretrained("doap-tiny-256b", "keras", "int8")
    with pytest.raises(InputError, match=r"computes in float32, not int8: .*export_main\.py"):
        doap_tf.from_pretrained(tflite_files.tflite_file("doap-tiny-256b"), precision="int8")
    with pytest.raises(InputError, match="precision must be one of float32, float16, int8"):
        doap_tf.from_pretrained("doap-tiny-256b", precision="int4")


def _tiny():
    network = DescriptorNetwork(**TINY)
    network.build((None, 32, 32, 1))
    return network


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A folder with one network that ships, and an empty cache."""
    monkeypatch.setattr(catalogue, "WEIGHTS", tmp_path / "weights")
    for name in list(catalogue.ENTRIES):
        monkeypatch.delitem(catalogue.ENTRIES, name)
    monkeypatch.setitem(catalogue.ENTRIES, "tiny", Entry("tiny", "descriptor"))
    monkeypatch.setattr(loading, "_has_gpu", lambda: False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_weights(_tiny(), tmp_path / "weights" / "tiny.npz")
    return tmp_path


def test_files_are_converted_once_into_the_cache(tiny, monkeypatch, capsys):
    patches = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    descriptor = doap_tf.from_pretrained("tiny")
    assert "converting tiny for LiteRT in float32, once" in capsys.readouterr().err
    file = tflite_files.tflite_file("tiny")
    assert descriptor.backend == "litert" and file.parent == tiny / "cache" / "doap_tf"
    expected = doap_tf.from_pretrained("tiny", "keras").describe(patches)
    np.testing.assert_allclose(descriptor.describe(patches), expected, atol=1e-5)

    # With the same weights it is used again, or put together again from them and the graph.
    weights, graph = (tiny / "weights" / f"tiny{suffix}" for suffix in (".npz", ".graph.tflite"))
    monkeypatch.setattr(graph_files, "_SMALLEST", 256)
    graph.write_bytes(graph_files.remove_weights(file.read_bytes(), weights))
    assert graph.stat().st_size < file.stat().st_size / 2
    monkeypatch.setattr(tflite_files, "_convert", lambda paths, precision: made.update(paths))
    made: dict = {}
    assert tflite_files.tflite_file("tiny") == file and not made
    file.unlink()
    restored = doap_tf.from_pretrained("tiny")
    assert capsys.readouterr().err == "" and not made
    np.testing.assert_array_equal(restored.describe(patches), descriptor.describe(patches))

    # Other weights do not belong to the graph.
    write_weights(_tiny(), weights)
    assert tflite_files.tflite_file("tiny") != file
    assert made.keys() == {catalogue.ENTRIES["tiny"]}


def test_graphs_belong_to_the_weights_that_ship():
    """If this fails, run `make graphs`."""
    for name in doap_tf.list_pretrained():
        entry = catalogue.ENTRIES[name]
        graph = entry.file(".graph.tflite").read_bytes()
        assert graph_files.is_of(graph, entry.weights) and len(graph) < 50_000, name


def test_without_tensorflow_a_missing_file_is_an_input_error(tiny, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"tiny must be converted .*TensorFlow.*not installed"):
        doap_tf.from_pretrained("tiny")


def test_a_failed_conversion_is_an_input_error(tiny):
    (tiny / "weights" / "tiny.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"tiny cannot be converted.*does not hold.*keras"):
        doap_tf.from_pretrained("tiny")


def test_without_a_cache_keras_runs_the_network(tiny):
    (tiny / "cache").write_bytes(b"no folder")
    assert doap_tf.from_pretrained("tiny").backend == "keras"
    with pytest.raises(OSError, match="cache"):
        doap_tf.from_pretrained("tiny", "litert")


def test_the_hash_covers_the_code_that_conversion_imports():
    """And no more, so that other networks do not outdate the files."""
    package = pathlib.Path(tflite_files.__file__).parents[1]
    reached, open_modules = set(), ["zoo/convert"]
    while open_modules:
        module = open_modules.pop()
        if module in reached or module.split("/")[0] not in _CONVERTING:
            continue
        reached.add(module)
        for node in ast.walk(ast.parse((package / f"{module}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("doap_tf."):
                file = node.module.removeprefix("doap_tf.").replace(".", "/")
                assert file not in ("networks", "export"), f"{module}: import from its modules"
                open_modules.append(file)
    assert reached == set(tflite_files.CODE)


@pytest.mark.parametrize("side", [16, 31, 32, 33, 48, 65, 200])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_patches_are_resized_as_by_tensorflow(side, dtype):
    patches = np.random.default_rng(0).integers(0, 256, (3, side, side, 1)).astype(dtype)
    wanted = tf.image.resize(patches, [32, 32], method="bilinear", antialias=True)
    resized = resize(patches, 32)
    assert resized.dtype == np.float32
    np.testing.assert_allclose(resized, wanted, atol=1e-3)
