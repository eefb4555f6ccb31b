"""Checkpoints survive kills at any point of a write; the slow test kills whole trainings."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from doap_tf.training.checkpoints import Checkpoints
from tests.reliability.kills import Kills

# Saves checkpoints 1 to 3, then kills itself at a call that saving checkpoint 4 makes.
SAVE_AND_DIE = """
import importlib, os, pathlib, signal, sys
import numpy as np
from doap_tf.training.checkpoints import Checkpoints

def save(step):
    arrays = {"weights": np.full(100_000, step), "more": np.full(9, step)}
    Checkpoints(pathlib.Path(sys.argv[1])).save(step, arrays, {"step": step})

for step in (1, 2, 3):
    save(step)
module, *owner, name = sys.argv[2].split(".")
place = importlib.import_module(module)
for part in owner:
    place = getattr(place, part)
function, left = getattr(place, name), int(sys.argv[3])

def die(*arguments, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments, **options)

setattr(place, name, die)
save(4)
"""


@pytest.mark.parametrize(
    ("call", "count", "newest"),
    [
        pytest.param("zipfile.ZipFile.open", 1, 3, id="nothing written"),
        pytest.param("zipfile.ZipFile.open", 3, 3, id="some arrays written"),
        pytest.param("zipfile.ZipFile.close", 1, 3, id="no directory of the archive"),
        pytest.param("os.fsync", 1, 3, id="written, but not on the disk"),
        pytest.param("os.replace", 1, 3, id="on the disk, but not in place"),
        pytest.param("os.fsync", 2, 4, id="in place"),
        pytest.param("pathlib.Path.unlink", 1, 4, id="old ones not removed"),
    ],
)
def test_the_newest_checkpoint_is_whole_wherever_a_write_is_killed(tmp_path, call, count, newest):
    killed = subprocess.run(
        [sys.executable, "-c", SAVE_AND_DIE, str(tmp_path), call, str(count)], capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for step in (newest, 9):
        arrays, state = Checkpoints(tmp_path).newest()
        assert state["step"] == step
        np.testing.assert_array_equal(arrays["weights"], np.full(100_000, step))
        Checkpoints(tmp_path).save(9, {"weights": np.full(100_000, 9)}, {"step": 9})


@pytest.mark.slow
def test_killed_trainings_end_bit_identical(tmp_path):
    kills = Kills(tmp_path)
    newest = [kills.run(number).checkpoint for number in range(3)]  # `run` compares their ends
    assert max(newest) <= 40
