"""Training a dense network as a library, on toy images."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.networks import DENSE_PRESETS
from doap_tf.training import dense_trainer
from doap_tf.training.dense_config import DenseConfig
from doap_tf.training.dense_images import DenseImages, ImagePool, load_images, read_images
from doap_tf.training.dense_step import DenseStep
from doap_tf.training.dense_trainer import DenseTrainer
from doap_tf.training.dense_validation import DenseValidation
from doap_tf.training.initial_weights import start_from
from doap_tf.training.scene_tracks import SceneTracks
from tests.training import launch

DENSE_PRESETS["tiny"] = {
    "filters": ((4, 8), (16,), (16,), (16,), (16,)),
    "hidden": 32,
    "output_dim": 16,
    "score_filters": 4,
}
DENSE_PRESETS["tiny-binary"] = {**DENSE_PRESETS["tiny"], "output_dim": 8, "head": "binary"}
CONFIG = DenseConfig(
    network="tiny",
    batch_size=4,
    points=16,
    view_size=64,
    steps=30,
    warmup=0.1,
    appearance="camera",
    checkpoint_every=10,
    validate_every=15,
    log_every=10,
)


def toy_images(count, seed) -> np.ndarray:
    """Overlapping rectangles, uint8 [N, 96, 128]."""
    generator = np.random.default_rng(seed)
    images = np.full([count, 96, 128], 128, np.uint8)
    for image in images:
        for _ in range(80):
            x, y = generator.integers(0, 128), generator.integers(0, 96)
            width, height = generator.integers(5, 25, 2)
            image[y : y + height, x : x + width] = generator.integers(0, 256)
    return images


def toy_pool(seed) -> ImagePool:
    webcams = np.repeat(toy_images(2, seed + 1), 2, axis=0)
    webcams[1::2] = 255 - webcams[1::2] // 2
    return ImagePool(toy_images(6, seed), webcams, np.array([0, 0, 1, 1], np.int32))


def toy_tracks() -> SceneTracks:
    """Two images of one scene and 64 points of both."""
    images = np.repeat(toy_images(1, 5), 2, axis=0)
    positions = np.random.default_rng(0).uniform(20, 76, (64, 2)).astype(np.float32)
    numbers = np.arange(128, dtype=np.int32)
    return SceneTracks(images, numbers // 64, numbers % 64, np.tile(positions, [2, 1]))


@pytest.fixture(scope="module")
def images() -> DenseImages:
    return DenseImages(toy_pool(0), toy_pool(10))


@pytest.mark.parametrize(("network", "with_tracks"), [("tiny", False), ("tiny-binary", True)])
def test_every_weight_learns(images, network, with_tracks):
    config = dataclasses.replace(CONFIG, network=network, loss="both", bins=3)
    tracks = toy_tracks().pairs() if with_tracks else None
    step = DenseStep(config, images.train, tf.distribute.get_strategy(), tracks)
    results, gradients = step._loss_and_gradients(step._inputs, tf.constant([0, 1]), 0.02)
    assert 0 < results["descriptor_loss"] < 5 and np.isfinite(results["loss"])
    for variable, gradient in zip(step.network.trainable_variables, gradients, strict=True):
        assert np.isfinite(gradient).all() and np.any(gradient), variable.path


@pytest.fixture(scope="module")
def compiled_once(images):
    """Hands every run the same compiled functions: a step is traced for half a minute."""
    step = DenseStep(CONFIG, images.train, tf.distribute.get_strategy())
    validation = DenseValidation(CONFIG, images.held_out)

    def restarted(*_) -> DenseStep:
        step.restart(CONFIG.seed)
        return step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_trainer, "DenseStep", restarted)
        patch.setattr(dense_trainer, "DenseValidation", lambda *_: validation)
        yield


@pytest.fixture(scope="module")
def finished(images, compiled_once, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    return folder, DenseTrainer(CONFIG, images, folder).run()


@pytest.mark.slow
def test_a_short_run_raises_the_accuracy(images, finished):
    folder, network = finished
    record = json.loads((folder / "train.json").read_text())
    first, *_, last = (entry["validation"] for entry in record["history"] if "validation" in entry)
    assert last["photos_corners"] > first["photos_corners"] + 0.04
    assert last["accuracy"] > first["accuracy"]
    kinds = {f"{kind}_{of}" for kind in ("photos", "webcams") for of in ("corners", "keypoints")}
    assert first.keys() == kinds | {"accuracy"}
    logged = next(entry for entry in record["history"] if "loss" in entry)
    assert {"descriptor_loss", "keypoints_per_cell", "repeated", "pairs_per_second"} <= set(logged)
    assert record["data"]["train"]["source"] == "6 photographs and 2 webcams"
    assert len(record["data"]["validation"]["sha256"]) == 64
    loaded = tf.keras.models.load_model(folder / "model.keras")
    image = images.held_out.photos[:1, :64, :64, np.newaxis].astype(np.float32)
    np.testing.assert_array_equal(loaded(image).scores, network(image).scores)


@pytest.mark.slow
def test_an_interrupted_run_ends_bit_identical(images, finished, tmp_path, monkeypatch):
    call = DenseStep.__call__

    def stopping(self, rate, step):
        if step == 21:
            raise RuntimeError("power cut")
        return call(self, rate, step)

    with monkeypatch.context() as patch:
        patch.setattr(DenseStep, "__call__", stopping)
        with pytest.raises(RuntimeError, match="power cut"):
            DenseTrainer(CONFIG, images, tmp_path).run()
    DenseTrainer(CONFIG, images, tmp_path).run()
    wanted, got = (launch.last_checkpoint(folder) for folder in (finished[0], tmp_path))
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
    other = images._replace(train=toy_pool(3))
    with pytest.raises(InputError, match="the data of train were 6 photographs and 2 webcams"):
        DenseTrainer(CONFIG, other, tmp_path).run()


REPLICAS = """
import dataclasses
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
from doap_tf.training.dense_step import DenseStep
from tests.training.test_dense_trainer import CONFIG, toy_pool, toy_tracks

results = []
for strategy in (tf.distribute.get_strategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])):
    config = dataclasses.replace(CONFIG, synchronized_batch_norm=True, loss="both", track_share=0.5)
    step = DenseStep(config, toy_pool(0), strategy, toy_tracks().pairs())
    logged = [step(1e-3, number) for number in range(2)]
    results.append([[float(one[name]) for name in ("loss", "descriptor_loss")] for one in logged])
np.testing.assert_allclose(*results, rtol=1e-3)
"""


@pytest.mark.slow
def test_two_replicas_do_what_one_device_does():
    finished = subprocess.run(
        [sys.executable, "-c", REPLICAS],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=launch.REPOSITORY,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]


def test_layers_start_from_trained_networks():
    fresh, trained, wider = (
        dense_trainer.make_dense_network(dataclasses.replace(CONFIG, network=name))
        for name in ("tiny-binary", "tiny", "dense-128")
    )
    line = start_from(fresh, [wider, trained])
    assert line == "13 of 13 layers start from the initial networks; anew: none"
    np.testing.assert_array_equal(fresh.levels[0][0].weights[0], trained.levels[0][0].weights[0])
    np.testing.assert_array_equal(fresh.projection.kernel, trained.projection.kernel[:, :8])
    with pytest.raises(InputError, match="no layer in common"):
        start_from(wider, [trained])


def test_images_come_back_from_their_file(tmp_path, images):
    images.save(tmp_path / "images.npz")
    loaded = load_images(tmp_path / "images.npz")
    for pool, original in zip(loaded, images, strict=True):
        np.testing.assert_array_equal(pool.camera_numbers, original.camera_numbers)
        assert pool.photos.shape == original.photos.shape
        assert np.abs(pool.webcams.astype(int) - original.webcams).mean() < 4
    (tmp_path / "other.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match="holds no images for dense networks"):
        load_images(tmp_path / "other.npz")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_images(tmp_path / "missing.npz")


def test_photographs_and_webcams_are_read_and_held_out(tmp_path):
    photographs = launch.make_photographs(tmp_path / "photographs")
    for name in "abc":
        launch.make_photographs(tmp_path / "webcams" / name, 2)
    read = read_images(str(photographs), str(tmp_path / "webcams"), 0.3)
    assert [len(pool.photos) for pool in read] == [4, 2]
    assert [len(pool.webcams) for pool in read] == [4, 2]
    np.testing.assert_array_equal(read.train.camera_numbers, [0, 0, 1, 1])
    assert read.train.photos.shape[1:] == (480, 640)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "dense"}, "network must be one of dense-128, "),
        ({"loss": "ap"}, "loss must be one of average_precision, "),
        ({"appearance": "all"}, "appearance must be one of camera, "),
        ({"view_size": 100}, "view_size must be a multiple of 32 and at least 64, not 100"),
        ({"webcam_share": 1.5}, r"webcam_share must be in \[0, 1\], not 1.5"),
        ({"track_share": 1.0}, r"track_share must be in \[0, 1\), not 1.0"),
        ({"points": 0}, "points 1, not 25 and 0"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or above"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(CONFIG, **change)
