import numpy as np
import pytest

import doap_tf
from doap_tf import metrics
from doap_tf.descriptors import load, shipped
from doap_tf.descriptors.weights_file import read_weights, write_weights
from doap_tf.errors import InputError
from doap_tf.features import learned
from doap_tf.networks import DescriptorNetwork
from tests import layouts


def test_a_keypoint_network_is_no_descriptor():
    with pytest.raises(InputError, match=r"keypoints\.tflite finds keypoints: give a network that"):
        load(str(learned.SHIPPED))
    path = shipped.tflite_file("doap-tiny-256b")
    with pytest.raises(InputError, match=r"^\S+ holds no keypoint network: it describes patches"):
        learned.LearnedDetector(path)


@pytest.mark.parametrize(
    "options", [{}, {"head": "binary", "spatial_transformer": True}, {"trunk": "tiny"}]
)
def test_weights_come_back_in_half_precision(options, tmp_path):
    network = DescriptorNetwork(output_dim=16, width=0.25, magnification=7.0, **options)
    size = network.input_size
    patches = np.random.default_rng(0).integers(0, 256, [40, size, size, 1]).astype(np.uint8)
    network(patches, training=True)
    write_weights(network, tmp_path / "weights.npz")
    loaded = read_weights(tmp_path / "weights.npz")
    assert loaded.get_config() == network.get_config()
    for got, wanted in zip(loaded.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    described = doap_tf.from_pretrained(tmp_path / "weights.npz").describe(patches)
    if network.head == "real":
        np.testing.assert_allclose(described, network(patches), atol=0.01)


def test_damaged_weights_are_refused(tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"weights\.npz"):
        read_weights(tmp_path / "weights.npz")


@pytest.mark.parametrize("name", doap_tf.list_pretrained())
def test_shipped_networks(name):
    """Each is small, has its card, and beats RootSIFT on views of textures."""
    file = shipped.weights_file(name)
    assert file.stat().st_size < 6_000_000
    assert name in file.with_suffix(".md").read_text()
    descriptor = doap_tf.from_pretrained(name)
    generator = np.random.default_rng(0)
    views = np.stack([layouts.views(generator, 2, 65, jitter=2.5) for _ in range(150)])

    def matching(described):
        return metrics.matching_average_precision(
            *(described.describe(views[:, view]) for view in (0, 1)), described.norm
        )

    assert matching(descriptor) > matching(load("rootsift"))
