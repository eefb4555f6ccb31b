import json
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.networks import KeypointNetwork, load_keypoint_network
from doap_tf.networks.keypoint_file import holds_keypoint_network


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


def test_reads_a_training_directory_and_its_file(saved):
    folder, network = saved
    images = np.random.default_rng(0).uniform(0, 255, [1, 12, 14, 1])
    for path in (folder, folder / "model.keras", str(folder)):
        assert holds_keypoint_network(path)
        loaded = load_keypoint_network(path)
        assert (loaded.stride, loaded.filters) == (2, (4, 6))
        np.testing.assert_array_equal(loaded(images), network(images))


def test_the_network_that_ships_is_small():
    assert load_keypoint_network().count_params() < 250_000


def test_a_configuration_chooses_neither_types_nor_layers(saved):
    path = _rewritten(saved[0] / "model.keras", {"dtype": "float16", "layers": [], "other": 1})
    assert load_keypoint_network(path).dtype == "float32"


@pytest.mark.parametrize("change", [{"filters": [10**6, 10**6]}, {"stride": 10**5}, {"filters": 3}])
def test_a_configuration_cannot_ask_for_memory(saved, change):
    path = _rewritten(saved[0] / "model.keras", change)
    with pytest.raises(InputError, match=r"model\.keras cannot be read"):
        load_keypoint_network(path)


def test_other_files_are_refused_in_one_line(saved, tmp_path):
    whole = (saved[0] / "model.keras").read_bytes()
    other = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    other.build((None, 2))
    other.save(tmp_path / "other.keras")
    (tmp_path / "damaged.keras").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty").mkdir()
    for name, message in {
        "absent.keras": "does not exist",
        "empty": "does not exist",
        "damaged.keras": "cannot be read as a Keras model",
        "other.keras": "holds a Sequential, not a KeypointNetwork",
    }.items():
        assert not holds_keypoint_network(tmp_path / name)
        with pytest.raises(InputError, match=message) as error:
            load_keypoint_network(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)
