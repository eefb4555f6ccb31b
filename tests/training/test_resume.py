"""Whatever stops a run, the same command ends where an uninterrupted one ends, bit for bit."""

import re
import signal

import numpy as np
import pytest

from doap_tf.commands import train
from tests.training import launch


@pytest.fixture(scope="module")
def groups(tmp_path_factory):
    return launch.make_groups().save(tmp_path_factory.mktemp("groups") / "groups").directory


def flags(groups, train_dir):
    return (
        f"--groups={groups}",
        f"--train_dir={launch.already_exported(train_dir)}",
        *launch.TINY,
        "--steps=30",
        "--dropout=0.3",
        "--turn",
        "--checkpoint_every=3",
        "--validate_every=5",
    )


def stop_at(process, step, number):
    """Sends a signal as soon as the validation of a step is printed, before its checkpoint.

    Returns what was printed until then.
    """
    shown = ""
    while f"step {step} of 30" not in shown:
        line = process.stdout.readline()
        assert line, f"ended before step {step}:\n{shown[-2000:]}"
        shown += line
    process.send_signal(number)
    return shown


def test_a_run_that_is_killed_stopped_and_damaged_ends_bit_identical(
    groups, tmp_path, capsys, caplog
):
    launch.train_here(train, *flags(groups, tmp_path / "uninterrupted"))
    wanted = launch.last_checkpoint(tmp_path / "uninterrupted")

    folder = tmp_path / "interrupted"
    process = launch.start(*flags(groups, folder))
    stop_at(process, 5, signal.SIGKILL)
    launch.finish(process, expected=-signal.SIGKILL)

    process = launch.start(*flags(groups, folder))
    assert "resuming" in stop_at(process, 10, signal.SIGTERM)
    output = launch.finish(process, expected=75)
    assert "the same command resumes" in output
    newest = max((folder / "checkpoints").glob("*.npz"))
    assert int(re.search(r"\d+", newest.name).group()) >= 10
    newest.write_bytes(newest.read_bytes()[:1000])

    launch.train_here(train, *flags(groups, folder))
    assert f"{newest.name} cannot be read" in caplog.text
    assert "resuming" in capsys.readouterr().out
    got = launch.last_checkpoint(folder)
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
