import contextlib
import fcntl
import os
import pathlib

import numpy as np
import pytest
import skimage.data
import tensorflow as tf

from doap_tf.data import PatchGroups
from doap_tf.export import export_saved_model
from doap_tf.features.cutting import cut_patches
from doap_tf.features.frames import similarity_frames
from doap_tf.losses import AveragePrecisionLoss
from doap_tf.networks import DescriptorNetwork
from tests.dense import small_network

_PHOTOGRAPHS = ("camera", "coins", "brick", "grass", "gravel", "moon")
_SIDE = 48


def _groups(per_photograph: int, views: int, seed: int) -> PatchGroups:
    """Places of photographs, each seen a few times under small changes of pose."""
    rng = np.random.default_rng(seed)
    patches = []
    for name in _PHOTOGRAPHS:
        image = getattr(skimage.data, name)()
        height, width = image.shape
        count = per_photograph * views
        places = rng.uniform(40, [width - 40, height - 40], [per_photograph, 2])
        x, y = (np.repeat(places, views, axis=0) + rng.normal(0, 1.0, [count, 2])).T
        radius = np.repeat(rng.uniform(3, 6, per_photograph), views) * rng.uniform(0.9, 1.1, count)
        frames = similarity_frames(x, y, radius, rng.normal(0, 0.15, count))
        patches.append(cut_patches(image, frames, _SIDE, 5.0))
    numbers = np.repeat(np.arange(len(_PHOTOGRAPHS) * per_photograph), views)
    return PatchGroups.from_arrays(np.concatenate(patches), numbers, source="photographs")


@pytest.fixture(scope="session")
def groups() -> PatchGroups:
    """Places that the toy networks were not trained on."""
    return _groups(80, 2, seed=1)


@contextlib.contextmanager
def _made_once(tmp_path_factory, name: str):
    """A folder that one process makes, for all workers and each conftest.py that imports it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


@pytest.fixture(scope="session")
def networks(tmp_path_factory) -> dict[str, DescriptorNetwork]:
    """Networks with one trained trunk: "real", "real_st" and "binary_st"."""
    with _made_once(tmp_path_factory, "networks") as folder:
        if not folder.exists():
            trained = _trained_networks()
            folder.mkdir()
            for name, network in trained.items():
                network.save(folder / f"{name}.keras")
    return {path.stem: tf.keras.models.load_model(path) for path in sorted(folder.iterdir())}


def _trained_networks() -> dict[str, DescriptorNetwork]:
    tf.keras.utils.set_random_seed(0)
    training = _groups(200, 2, seed=0)
    real = DescriptorNetwork(128, width=0.25, dropout=0.0, magnification=4.0)
    patches = tf.image.resize(training.patches[..., np.newaxis], [32, 32], antialias=True).numpy()
    loss, optimizer = AveragePrecisionLoss(), tf.keras.optimizers.SGD(0.1, momentum=0.9)
    real.build((None, 32, 32, 1))

    @tf.function
    def step(batch, labels):
        with tf.GradientTape() as tape:
            value = loss(labels, real(batch, training=True))
        gradients = tape.gradient(value, real.trainable_variables)
        optimizer.apply_gradients(zip(gradients, real.trainable_variables, strict=True))

    rng = np.random.default_rng(0)
    for _ in range(16):
        chosen = rng.choice(training.group_count, 64, replace=False)
        rows = training.rows_by_group.reshape(-1, 2)[chosen].ravel()
        step(patches[rows], np.repeat(chosen, 2))
    return {
        "real": real,
        "real_st": _with_transformer(real, "real"),
        "binary_st": _with_transformer(real, "binary"),
    }


def _with_transformer(network: DescriptorNetwork, head: str) -> DescriptorNetwork:
    """The same trunk behind a transformer whose maps differ visibly from patch to patch."""
    transformed = DescriptorNetwork.from_config(
        {**network.get_config(), "head": head, "spatial_transformer": True, "name": head}
    )
    transformed.build((None, 42, 42, 1))
    transformed.trunk.set_weights(network.trunk.get_weights())
    kernel, bias = transformed.transformer.prediction.get_weights()
    noise = np.random.default_rng(0).normal(0, 0.1 / np.sqrt(len(kernel)), kernel.shape)
    transformed.transformer.prediction.set_weights([noise, bias * 0.8])
    return transformed


@pytest.fixture(scope="session")
def exports(networks, tmp_path_factory) -> pathlib.Path:
    """A folder with the models "real", "binary_st" and "dense" (of bits), one version each."""
    with _made_once(tmp_path_factory, "exports") as directory:
        if not directory.exists():
            chosen = {name: networks[name] for name in ("real", "binary_st")}
            for name, network in {**chosen, "dense": small_network("binary")}.items():
                export_saved_model(network, directory / name, training_record={"seed": 7})
    return directory
