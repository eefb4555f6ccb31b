"""Whatever stops a run, the same command ends where an uninterrupted one ends, bit for bit."""

import re
import signal

import numpy as np
import pytest

from tests.training import launch


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    return launch.make_groups().save(tmp_path_factory.mktemp("groups") / "groups").directory


def flags(groups, train_dir):
    return (
        f"--groups={groups}",
        f"--train_dir={train_dir}",
        *launch.TINY,
        "--steps=40",
        "--dropout=0.3",
        "--turn",
        "--checkpoint_every=4",
        "--validate_every=5",
    )


@pytest.fixture(scope="module")
def uninterrupted(groups, tmp_path_factory):
    train_dir = tmp_path_factory.mktemp("uninterrupted")
    launch.train(*flags(groups, train_dir))
    return launch.last_checkpoint(train_dir)


def stop_at(process, step, number):
    """Sends a signal as soon as the validation of a step is printed, before its checkpoint."""
    shown = ""
    while f"step {step} of 40" not in shown:
        line = process.stdout.readline()
        assert line, f"ended before step {step}:\n{shown[-2000:]}"
        shown += line
    process.send_signal(number)


def check_identical(got, wanted):
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)


def test_a_killed_run_ends_bit_identical(groups, uninterrupted, tmp_path):
    process = launch.start(*flags(groups, tmp_path))
    stop_at(process, 25, signal.SIGKILL)
    launch.finish(process, expected=-signal.SIGKILL)
    output = launch.train(*flags(groups, tmp_path))
    assert "resuming" in output
    check_identical(launch.last_checkpoint(tmp_path), uninterrupted)


def test_a_signal_saves_and_a_damaged_checkpoint_falls_back(groups, uninterrupted, tmp_path):
    process = launch.start(*flags(groups, tmp_path))
    stop_at(process, 10, signal.SIGTERM)
    output = launch.finish(process, expected=75)
    assert "the same command resumes" in output
    newest = max((tmp_path / "checkpoints").glob("*.npz"))
    assert int(re.search(r"\d+", newest.name).group()) >= 10
    newest.write_bytes(newest.read_bytes()[:1000])
    output = launch.train(*flags(groups, tmp_path))
    assert f"{newest.name} cannot be read" in output
    check_identical(launch.last_checkpoint(tmp_path), uninterrupted)
