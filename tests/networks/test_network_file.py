import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.networks import DenseNetwork, DescriptorNetwork, KeypointNetwork
from doap_tf.networks.network_file import read_network, write_weights


@pytest.fixture
def saved(tmp_path):
    """A training directory and its network."""
    network = KeypointNetwork(stride=2, filters=(4, 6))
    network.build((None, None, None, 1))
    network.save(tmp_path / "model.keras")
    return tmp_path, network


def _rewritten(path, change):
    """Replaces parts of the configuration in a .keras file."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    content = json.loads(members["config.json"])
    content["config"] |= change
    members["config.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return path


def test_a_keypoint_network_is_read_as_it_was_saved(saved):
    folder, network = saved
    images = np.random.default_rng(0).uniform(0, 255, [1, 12, 14, 1])
    loaded = read_network(str(folder / "model.keras"), DescriptorNetwork, KeypointNetwork)
    assert (loaded.stride, loaded.filters) == (2, (4, 6))
    np.testing.assert_array_equal(loaded(images), network(images))


@pytest.mark.parametrize("suffix", [".keras", ".npz"])
def test_a_dense_network_is_read_and_cannot_ask_for_memory(suffix, tmp_path):
    network = DenseNetwork(filters=[[2], [2], [2], [2], [2]], hidden=4, output_dim=4)
    network.build((None, None, None, 1))
    path = tmp_path / f"dense{suffix}"
    write_weights(network, path) if suffix == ".npz" else network.save(path)
    loaded = read_network(path, DenseNetwork)
    assert loaded.get_config() == network.get_config()
    for got, wanted in zip(loaded.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    with pytest.raises(InputError, match="holds a doap_tf>DenseNetwork, not a KeypointNetwork"):
        read_network(path, KeypointNetwork)
    if suffix == ".keras":
        _rewritten(path, {"hidden": 10**8})
        with pytest.raises(InputError, match="for more weights than it holds"):
            read_network(path, DenseNetwork)


def test_a_configuration_chooses_neither_types_nor_layers(saved):
    path = _rewritten(saved[0] / "model.keras", {"dtype": "float16", "layers": [], "other": 1})
    assert read_network(path, KeypointNetwork).dtype == "float32"


@pytest.mark.parametrize("change", [{"filters": [10**6, 10**6]}, {"stride": 10**5}, {"filters": 3}])
def test_a_configuration_cannot_ask_for_memory(saved, change):
    path = _rewritten(saved[0] / "model.keras", change)
    with pytest.raises(InputError, match=r"model\.keras cannot be read"):
        read_network(path, KeypointNetwork)


def test_other_files_are_refused_in_one_line(saved, tmp_path):
    whole = (saved[0] / "model.keras").read_bytes()
    other = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    other.build((None, 2))
    other.save(tmp_path / "other.keras")
    (tmp_path / "damaged.keras").write_bytes(whole[: len(whole) // 2])
    for name, message in {
        "absent.keras": "No such file",
        "damaged.keras": "cannot be read as a Keras model",
        "other.keras": "holds a Sequential, not a KeypointNetwork",
    }.items():
        with pytest.raises(InputError, match=message) as error:
            read_network(tmp_path / name, KeypointNetwork)
        assert name in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{}, {"head": "binary", "spatial_transformer": True}, {"trunk": "tiny"}]
)
def test_weights_come_back_in_half_precision(options, tmp_path):
    network = DescriptorNetwork(output_dim=16, width=0.25, magnification=7.0, **options)
    size = network.input_size
    patches = np.random.default_rng(0).integers(0, 256, [40, size, size, 1]).astype(np.uint8)
    network(patches, training=True)
    write_weights(network, tmp_path / "weights.npz")
    loaded = read_network(tmp_path / "weights.npz", DescriptorNetwork)
    assert loaded.get_config() == network.get_config()
    for got, wanted in zip(loaded.get_weights(), network.get_weights(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4)
    if network.head == "real":
        np.testing.assert_allclose(loaded(patches), network(patches), atol=0.01)


def test_kernels_rounded_to_8_bits(tmp_path):
    network = DenseNetwork(filters=[[8], [16], [32], [32], [32]], hidden=64, output_dim=32)
    network.build((None, None, None, 1))
    for bits in (None, 8):
        write_weights(network, tmp_path / f"{bits}.npz", bits)
    whole, packed = (tmp_path / f"{bits}.npz" for bits in (None, 8))
    assert packed.stat().st_size < 0.75 * whole.stat().st_size
    for got, wanted in zip(
        read_network(packed, DenseNetwork).get_weights(), network.get_weights(), strict=True
    ):
        largest = np.abs(wanted).reshape(-1, wanted.shape[-1]).max(axis=0)
        assert (np.abs(got - wanted) <= largest / 127 + 1e-3 * (wanted.ndim == 1)).all()


def test_damaged_weights_are_refused(tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"PK nothing")
    with pytest.raises(InputError, match=r"weights\.npz"):
        read_network(tmp_path / "weights.npz", DescriptorNetwork)
