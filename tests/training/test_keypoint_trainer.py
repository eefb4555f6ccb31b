"""Training keypoints as a library, with a stand-in for the descriptor."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.patch_generation.scenes import find_scenes
from doap_tf.patch_generation.view_pairs import ViewPairs
from doap_tf.training import keypoint_trainer
from doap_tf.training.config import incompatibility
from doap_tf.training.keypoint_config import KeypointConfig
from doap_tf.training.keypoint_objective import KeypointObjective
from doap_tf.training.keypoint_step import KeypointStep
from doap_tf.training.keypoint_trainer import KeypointTrainer
from doap_tf.training.keypoint_validation import KeypointValidation
from tests.training import launch
from tests.training.test_keypoint_objective import Pixels

CONFIG = KeypointConfig(
    batch_size=4, steps=4, view_size=48, stride=4, filters=(8, 8), warmup=0.1, learning_rate=0.02
)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return find_scenes(launch.make_photographs(tmp_path_factory.mktemp("data") / "photographs"))


def train(config, scenes, folder, validate=True, initial=()):
    objective = KeypointObjective(Pixels(), config.view_size)
    pairs, held_out = (ViewPairs(part, config.view_size) for part in (scenes[:-2], scenes[-2:]))
    validation = KeypointValidation(held_out, objective, config) if validate else None
    network = KeypointTrainer(config, pairs, objective, validation, folder, initial=initial).run()
    return network, json.loads((folder / "train.json").read_text())


@pytest.fixture(scope="module")
def finished(scenes, tmp_path_factory):
    config = dataclasses.replace(CONFIG, steps=60, keypoint_cost=0.1, validate_every=30)
    folder = tmp_path_factory.mktemp("finished")
    return folder, *train(config, scenes, folder)


def test_keypoints_learn_to_come_back(finished):
    _, _, record = finished
    first, *_, last = (entry["validation"] for entry in record["history"] if "validation" in entry)
    assert last["repeated"] > first["repeated"] + 0.1
    assert last["gain"] > first["gain"] + 0.05
    assert record["best"]["gain"] >= last["gain"]


def test_the_record_and_the_model_are_written(finished):
    folder, network, record = finished
    assert record["config"]["filters"] == [8, 8] and record["model"] == "best"
    assert record["data"]["train"]["scenes"] == ["0.png", "1.png", "2.png", "3.png"]
    assert len(record["data"]["validation"]["sha256"]) == 64
    logged = [entry for entry in record["history"] if "loss" in entry]
    assert [entry["step"] for entry in logged] == list(range(10, 61, 10))
    assert {"pairs_per_second", "keypoints_per_cell", "repeated"} <= logged[0].keys()
    assert network.get_config()["stride"] == 4
    loaded = tf.keras.models.load_model(folder / "model.keras")
    image = np.random.default_rng(0).uniform(0, 255, [1, 32, 64, 1])
    np.testing.assert_array_equal(loaded(image), network(image))


def test_a_run_goes_on_from_a_trained_network(finished, scenes, tmp_path, capsys):
    _, trained, record = finished
    config = dataclasses.replace(
        CONFIG, steps=1, keypoint_cost=0.1, initial="trained.keras", learning_rate=1e-9
    )
    _, continued = train(config, scenes, tmp_path, initial=[trained])
    assert "3 of 3 layers start from the initial networks; anew: none" in capsys.readouterr().out
    start = continued["history"][0]["validation"]
    assert start["gain"] == pytest.approx(record["best"]["gain"], abs=1e-5)


def test_tensorboard_gets_numbers_and_keypoints_on_both_views(finished):
    folder, _, _ = finished
    values, pictures = {}, {}
    for file in (folder / "tensorboard").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                content = tf.make_ndarray(value.tensor)
                if value.metadata.plugin_data.plugin_name == "scalars":
                    values.setdefault(value.tag, []).append(float(content))
                else:
                    pictures.setdefault(value.tag, []).append(tf.io.decode_png(content[2]).numpy())
    assert len(values["loss"]) == 6 and len(values["validation/gain"]) == 3
    assert len(pictures["keypoints"]) == 3
    before, after = pictures["keypoints"][0], pictures["keypoints"][-1]
    assert before.shape == (3 * 96, 2 * 96 + 4, 3)
    green = [(picture == (90, 230, 60)).all(axis=-1).sum() for picture in (before, after)]
    assert green[1] > 0 and (before != after).any()


def test_an_interrupted_run_ends_bit_identical(scenes, tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, checkpoint_every=2)
    objective = KeypointObjective(Pixels(), config.view_size)
    step = KeypointStep(config, objective, tf.distribute.get_strategy())  # compiled once

    def restarted(*_):
        step.restart(config.seed)
        return step

    monkeypatch.setattr(keypoint_trainer, "KeypointStep", restarted)
    _, record = train(config, scenes, tmp_path / "uninterrupted", validate=False)
    assert record["model"] == "last" and record["best"] is None
    call = KeypointStep.__call__

    def stopping(self, views, rate, step):
        if step == 3:
            raise RuntimeError("power cut")
        return call(self, views, rate, step)

    with monkeypatch.context() as patch:
        patch.setattr(KeypointStep, "__call__", stopping)
        with pytest.raises(RuntimeError, match="power cut"):
            train(config, scenes, tmp_path / "stopped", validate=False)
    assert len(list((tmp_path / "stopped" / "checkpoints").iterdir())) == 1
    train(config, scenes, tmp_path / "stopped", validate=False)
    wanted = launch.last_checkpoint(tmp_path / "uninterrupted")
    got = launch.last_checkpoint(tmp_path / "stopped")
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
    with pytest.raises(
        InputError, match=r"the data of train were 4 photographs .* are now 3 photographs"
    ):
        train(config, scenes[1:], tmp_path / "stopped", validate=False)


def test_the_schedules():
    config = KeypointConfig(steps=10_000, keypoint_cost=0.3)
    assert config.rate_at(0) == pytest.approx(2e-5) and config.rate_at(9999) < 1e-8
    assert config.rate_at(99) == pytest.approx(2e-3, rel=1e-3)
    costs = [config.cost_at(step) for step in (0, 2500, 5000, 9999)]
    assert costs == pytest.approx([0.02, 0.16, 0.3, 0.3])


def test_the_filters_of_a_checkpoint_are_those_of_the_run():
    stored = json.loads(json.dumps(dataclasses.asdict(CONFIG)))
    assert incompatibility(CONFIG, stored) is None
    other = dataclasses.replace(CONFIG, filters=(8,))
    assert incompatibility(other, stored) == "filters was (8, 8) and is (8,) now"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"view_size": 100}, "view_size must be a multiple of 8 and of the stride 4, not 100"),
        ({"stride": 5}, "view_size must be a multiple of 8 and of the stride 5, not 48"),
        ({"view_size": 0}, "view_size must be a multiple of 8"),
        ({"filters": ()}, "stride and filters must be positive"),
        ({"keypoint_cost": 1.0}, r"keypoint_cost must be in \[0, 1\), not 1.0"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(CONFIG, **change)
