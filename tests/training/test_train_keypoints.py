"""The command that trains keypoints: signals, replicas, workers, files, and how it refuses."""

import json
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from doap_tf import command_line
from doap_tf.commands import train_keypoints
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork
from tests.training import launch

PROGRAM = "doap_tf.commands.train_keypoints"
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
    launch.train_here(train_keypoints, *flags(data, train_dir, "--strategy=none"))
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
    process = launch.start(*flags(data, tmp_path, "--strategy=none"), program=PROGRAM)
    shown = ""
    while "step 2 of 6" not in shown:
        line = process.stdout.readline()
        assert line, shown
        shown += line
    process.send_signal(signal.SIGTERM)
    assert "the same command resumes" in launch.finish(process, expected=75)
    mirrored = flags(data, tmp_path, "--strategy=mirrored")
    output = launch.train(*mirrored, logical_cpus=2, program=PROGRAM)
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
            program=PROGRAM,
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}}),
        )
        for index in range(2)
    ]
    for worker in workers:
        launch.finish(worker)
    check_equal(tmp_path, alone)


def test_the_former_flag_says_what_to_use(tmp_path):
    (tmp_path / "old.cfg").write_text("--network=keypoints\n--steps=9\n")
    flags = (f"--flagfile={tmp_path / 'old.cfg'}", "--source=/no/such", "--train_dir=run")
    command = [sys.executable, "train_main.py", *flags]
    done = subprocess.run(command, cwd=launch.REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 2
    assert "use doap-train-keypoints" in done.stderr and "'/no/such' is neither" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source=/no/such"], "'/no/such' is neither a folder nor a glob of images"),
        (["--source=EMPTY"], "holds no images"),
        (["--view_size=128"], "png has 120×120 pixels; at least 128 are required"),
        (["--view_size=100"], "view_size must be a multiple of 8 and of the stride 4, not 100"),
        (["--descriptor=surf"], "'surf' is neither a file or folder nor one of doap-128"),
        (["--filters=32,many"], ", not 32,many"),
        (["--aligned_source=PHOTOGRAPHS/0.png"], "neither a folder nor a glob"),
        (["--validation_fraction=2"], "fraction for validation must be in [0, 1), not 2"),
        (["--dimension=64"], "Unknown command line flag 'dimension'"),
        (["--train_dir="], "give --train_dir"),
        (["--initial=doap-tiny-256b"], "DescriptorNetwork, not a KeypointNetwork"),
        (["--batch_size=-1"], "batch_size must be at least 1, not -1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(arguments, message, data, tmp_path, capfd):
    (tmp_path / "empty").mkdir()
    folders = {"EMPTY": tmp_path / "empty", "PHOTOGRAPHS": data / "photographs"}
    for name, folder in folders.items():
        arguments = [flag.replace(name, str(folder)) for flag in arguments]
    train_dir = tmp_path / "run"
    with launch.flags_of(train_keypoints), pytest.raises(SystemExit) as exit_:
        argv = command_line._parse([PROGRAM, *flags(data, train_dir), *arguments])
        command_line._guarded(train_keypoints.main, argv)
    assert exit_.value.code == 2
    error = capfd.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not train_dir.exists()


def test_a_descriptor_that_a_step_cannot_hold_is_refused(tmp_path):
    (tmp_path / "export.tflite").touch()
    with pytest.raises(InputError, match=r"--descriptor: .*export\.tflite is an export"):
        train_keypoints._descriptor(str(tmp_path / "export.tflite"), on_gpu=False)
