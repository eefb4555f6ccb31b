"""The command with --network=keypoints: signals, replicas, workers, files, and how it refuses."""

import dataclasses
import json
import signal
import socket
import types

import numpy as np
import pytest
from absl import flags as flags_module

from doap_tf import command_line
from doap_tf.commands import train, train_keypoints
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from doap_tf.training.keypoint_config import KeypointConfig
from tests.training import launch
from tests.training.test_train_main import flags_of_train

KEYPOINTS = launch.REPOSITORY / "flags" / "keypoints.cfg"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    launch.make_photographs(folder / "photographs")
    descriptor = DescriptorNetwork(16, width=0.125)
    descriptor.build((None, 32, 32, 1))
    descriptor.save(folder / "descriptor.keras")
    return folder


def flags(data, train_dir, *more):
    return (
        f"--flagfile={KEYPOINTS}",
        f"--source={data / 'photographs'}",
        f"--descriptor={data / 'descriptor.keras'}",
        f"--train_dir={train_dir}",
        "--view_size=32",
        "--batch_size=2",
        "--stride=4",
        "--filters=4",
        "--steps=6",
        "--learning_rate=0.0001",
        "--checkpoint_every=1",
        "--validate_every=2",
        "--synchronized_batch_norm",
        *more,
    )


@pytest.fixture(scope="module")
def alone(data, tmp_path_factory):
    """A run on one device in this process."""
    train_dir = tmp_path_factory.mktemp("alone")
    with flags_of_train():
        argv = command_line._parse(["train_main.py", *flags(data, train_dir, "--strategy=none")])
        train.main(argv)
    return train_dir


def check_equal(train_dir, alone):
    got, wanted = map(launch.last_checkpoint, (train_dir, alone))
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=2e-3, atol=2e-4, err_msg=name)


def test_the_files_of_a_run(alone):
    assert {path.name for path in alone.iterdir()} == {
        "checkpoints",
        "keypoints.tflite",
        "model.keras",
        "tensorboard",
        "train.json",
    }
    assert b"TFL3" in (alone / "keypoints.tflite").read_bytes()[:8]


@pytest.mark.slow
def test_a_run_that_is_stopped_resumes_on_two_replicas(data, alone, tmp_path):
    process = launch.start(*flags(data, tmp_path, "--strategy=none"))
    shown = ""
    while "step 2 of 6" not in shown:
        line = process.stdout.readline()
        assert line, shown
        shown += line
    process.send_signal(signal.SIGTERM)
    assert "the same command resumes" in launch.finish(process, expected=75)
    output = launch.train(*flags(data, tmp_path, "--strategy=mirrored"), logical_cpus=2)
    assert "resuming" in output and "untrained" in output and "trained (" in output
    record = json.loads((tmp_path / "train.json").read_text())
    assert record["replicas"] == 2 and record["config"]["filters"] == [4]
    check_equal(tmp_path, alone)


@pytest.mark.slow
def test_two_workers(data, alone, tmp_path):
    sockets = [socket.socket() for _ in range(2)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    cluster = {"worker": [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]}
    for one in sockets:
        one.close()
    workers = [
        launch.start(
            *flags(data, tmp_path, "--strategy=multi_worker"),
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    for worker in workers:
        launch.finish(worker)
    check_equal(tmp_path, alone)


def test_flags_of_keypoints_are_known_and_show_their_defaults():
    settings = {field.name: field.default for field in dataclasses.fields(KeypointConfig)}
    others = {"network", "source", "aligned_source", "validation_fraction", "strategy", "train_dir"}
    assert settings.keys() | others == train._OF_BOTH | train._OF_KEYPOINTS
    shown = {name: flags_module.FLAGS[name].default for name in train._OF_KEYPOINTS}
    assert tuple(map(int, shown.pop("filters"))) == settings["filters"]
    assert shown.pop("aligned_source") is None
    assert shown == {name: settings[name] for name in shown}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--network=segments"], "--network must be one of descriptor, keypoints, not 'segments'"),
        (["--source=/no/such"], "'/no/such' is neither a folder nor a glob of images"),
        (["--source=EMPTY"], "holds no images"),
        (["--view_size=128"], "png has 120×120 pixels; at least 128 are required"),
        (["--view_size=100"], "view_size must be a multiple of 8 and of the stride 4, not 100"),
        (["--descriptor=surf"], "'surf' is neither a file or folder nor one of doap-128"),
        (["--filters=32,many"], ", not 32,many"),
        (["--aligned_source=PHOTOGRAPHS/0.png"], "neither a folder nor a glob"),
        (["--validation_fraction=2"], "fraction for validation must be in [0, 1), not 2"),
        (["--dimension=64"], "--dimension is for --network=descriptor, not keypoints"),
        (
            ["--network=descriptor", "--groups=G", "--steps=5"],
            "--descriptor is for --network=keypoints, not descriptor",
        ),
        (["--train_dir="], "give --train_dir"),
        (["--batch_size=-1"], "batch_size must be at least 1, not -1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, message, data, tmp_path, capfd):
    (tmp_path / "empty").mkdir()
    folders = {"EMPTY": tmp_path / "empty", "PHOTOGRAPHS": data / "photographs"}
    for name, folder in folders.items():
        arguments = [flag.replace(name, str(folder)) for flag in arguments]
    train_dir = tmp_path / "run"
    with flags_of_train(), pytest.raises(SystemExit) as exit_:
        argv = command_line._parse(["train_main.py", *flags(data, train_dir), *arguments])
        command_line._guarded(train.main, argv)
    assert exit_.value.code == 2
    error = capfd.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not train_dir.exists()


def test_a_descriptor_that_a_step_cannot_hold_is_refused(monkeypatch):
    saved_model = types.SimpleNamespace(network=None)
    monkeypatch.setattr("doap_tf.descriptors.from_pretrained", lambda name: saved_model)
    with pytest.raises(InputError, match="--descriptor must be a name, a training directory"):
        train_keypoints._descriptor("saved_model/1", on_gpu=False)
