"""Files of weights run no code and make no network that they do not hold."""

import json
import os
import zipfile

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf.data import PatchGroups
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from doap_tf.networks.network_file import write_weights
from doap_tf.training.checkpoints import Checkpoints
from tests.reliability.fuzzing import peak_mb, reset_peak_mb

MOST_GROWTH_MB = 64


class Evil:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def proof(tmp_path):
    """A path that only code of the file would make."""
    path = tmp_path / "was_run"
    yield path
    assert not path.exists()


@pytest.fixture(scope="module")
def network():
    network = DescriptorNetwork(8, width=0.03)
    network.build((None, 32, 32, 1))
    return network


def rewritten(path, **members):
    """The same zip archive with other contents of some members, by their names up to the dot."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            change = members.get(name.split(".")[0])
            archive.writestr(name, change(content) if change else content)
    return path


def refusal(path):
    """What is said to a file that is not loaded, within little memory."""
    before = reset_peak_mb()
    with pytest.raises(InputError) as error:
        doap_tf.from_pretrained(path)
    assert peak_mb() - before < MOST_GROWTH_MB
    return str(error.value)


def test_pickles_are_not_opened(network, proof, tmp_path):
    evil = np.array([Evil(proof)], object)
    np.savez(tmp_path / "weights.npz", config=evil, weight_0000=evil)
    assert "does not hold the weights of a network" in refusal(tmp_path / "weights.npz")
    write_weights(network, tmp_path / "weights.npz")
    with np.load(tmp_path / "weights.npz") as members:
        np.savez(tmp_path / "mixed.npz", **{**members, "weight_0003": evil})
    assert "allow_pickle=False" in refusal(tmp_path / "mixed.npz")
    np.savez(tmp_path / "step-000000001.npz", state=evil)
    with pytest.raises(InputError, match="none of the checkpoints"):
        Checkpoints(tmp_path).newest()
    groups = PatchGroups.from_arrays(np.zeros([2, 16, 16], np.uint8), [0, 0])
    groups.save(tmp_path / "groups")
    np.save(tmp_path / "groups" / "labels.npy", evil)
    with pytest.raises(InputError, match="allow_pickle=False"):
        PatchGroups.load(tmp_path / "groups")


def test_lambda_layers_are_not_made(proof, tmp_path):
    model = tf.keras.Sequential(
        [tf.keras.layers.Lambda(lambda x, path=str(proof): [os.mkdir(path), x][1])]
    )
    model.save(tmp_path / "model.keras")
    assert "holds a Sequential, not a DescriptorNetwork" in refusal(tmp_path / "model.keras")
    assert not proof.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"module": "os", "class_name": "mkdir", "config": ["PROOF"], "registered_name": "mkdir"},
        {"module": "os", "registered_name": "mkdir"},
        {"config": {"name": {"module": "os", "class_name": "mkdir", "config": ["PROOF"]}}},
        {"config": {"name": "n", "layers": [], "input_layers": [], "output_layers": []}},
        {"config": {"name": "n", "dtype": {"module": "os", "class_name": "mkdir"}}},
    ],
)
def test_a_configuration_chooses_no_objects(config, network, proof, tmp_path):
    def changed(content):
        content = {**json.loads(content), **config}
        return json.dumps(content).replace("PROOF", str(proof))

    network.save(tmp_path / "model.keras")
    rewritten(tmp_path / "model.keras", config=changed)
    try:
        loaded = doap_tf.from_pretrained(tmp_path / "model.keras")
    except InputError:
        return
    assert type(loaded.to_keras()) is DescriptorNetwork


@pytest.mark.parametrize("change", [{"output_dim": 10**9}, {"width": 1e5}, {"width": 1e308}])
def test_a_configuration_cannot_ask_for_memory(change, network, tmp_path):
    def changed(content):
        saved = json.loads(content)
        saved["config"] |= change
        return json.dumps(saved)

    network.save(tmp_path / "model.keras")
    larger = rewritten(tmp_path / "model.keras", config=changed)
    assert "cannot be read as a Keras model" in refusal(larger)
    write_weights(network, tmp_path / "weights.npz")
    with np.load(tmp_path / "weights.npz") as members:
        config = {**json.loads(members["config"].tobytes()), **change}
        encoded = np.frombuffer(json.dumps(config).encode(), np.uint8)
        np.savez(tmp_path / "larger.npz", **{**members, "config": encoded})
    assert "does not hold the weights of a network" in refusal(tmp_path / "larger.npz")
    with tf.keras.StatelessScope():
        pass  # where Keras would make room for what was left uninitialised


def test_arrays_that_do_not_fit_are_named(network, tmp_path):
    write_weights(network, tmp_path / "weights.npz")
    with np.load(tmp_path / "weights.npz") as members:
        np.savez(tmp_path / "one.npz", **{**members, "weight_0002": np.zeros(3, np.float16)})
    assert "shape" in refusal(tmp_path / "one.npz")
