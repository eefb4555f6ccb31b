import json
import sys

import numpy as np
import pytest

from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError
from doap_tf.export import convert_dense_to_onnx, convert_to_onnx
from doap_tf.matching import DenseExtractor
from doap_tf.networks import DescriptorNetwork
from doap_tf.preprocessing import resize_patches
from tests.dense import check_features, small_model, small_network
from tests.features.pictures import photograph


@pytest.mark.parametrize("name", ["real", "binary_st"])
def test_onnx_runtime_gives_what_the_network_gives(networks, groups, name):
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    network = networks[name]
    session = runtime.InferenceSession(convert_to_onnx(network))
    patches = groups.patches[:20]
    resized = resize_patches(patches[..., np.newaxis], network.input_size).numpy()
    (found,) = session.run(["descriptors"], {"patches": resized})
    expected = Descriptor(network).describe(patches)
    if network.head == "binary":
        assert np.mean(np.unpackbits(found) == np.unpackbits(expected)) > 0.999
    else:
        np.testing.assert_allclose(found, expected, atol=1e-5)
    metadata = json.loads(session.get_modelmeta().custom_metadata_map["doap_tf"])
    assert metadata["weights_sha256"] == Descriptor(network).weights_sha256


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A converted network of whole images in ONNX Runtime, and the same in Python."""
    pytest.importorskip("tf2onnx")
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model("binary"))
    session = runtime.InferenceSession(convert_dense_to_onnx(small_network("binary"), 300))
    return session, DenseExtractor(path, max_keypoints=300)


def _run(session, image: np.ndarray) -> list[np.ndarray]:
    names = ["keypoints", "sizes", "scores", "descriptors"]
    return session.run(names, {"image": image[np.newaxis, np.newaxis] / np.float32(255)})


@pytest.mark.parametrize(("height", "width"), [(256, 340), (131, 200)])
def test_onnx_runtime_finds_and_describes_as_in_python(dense, height, width):
    session, extractor = dense
    image = photograph()[:height, 100 : 100 + width]
    keypoints, sizes, scores, descriptors = _run(session, image)
    expected = extractor.extract(image)
    check_features(np.column_stack([keypoints, sizes]), scores, descriptors, expected)
    metadata = json.loads(session.get_modelmeta().custom_metadata_map["doap_tf"])
    assert metadata["weights_sha256"] == weights_sha256(small_network("binary"))


@pytest.mark.parametrize("shape", [(1, 1), (8, 90), (64, 130)])
def test_onnx_runtime_finds_nothing_where_nothing_is(dense, shape):
    shapes = [part.shape for part in _run(dense[0], np.full(shape, 7, np.uint8))]
    assert shapes == [(0, 2), (0,), (0,), (0, 2)]


def test_without_tf2onnx_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    for convert, network in (
        (convert_to_onnx, DescriptorNetwork(8, width=0.1)),
        (convert_dense_to_onnx, small_network()),
    ):
        with pytest.raises(InputError, match="pip install tf2onnx"):
            convert(network)
