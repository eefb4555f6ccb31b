import json
import sys

import numpy as np
import pytest

from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.errors import InputError
from doap_tf.export import convert_to_onnx
from doap_tf.networks import DescriptorNetwork
from doap_tf.preprocessing import resize_patches


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


def test_without_tf2onnx_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(InputError, match="pip install tf2onnx"):
        convert_to_onnx(DescriptorNetwork(8, width=0.1))
