"""Checkpoints survive kills at any moment; the script kills whole trainings."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from doap_tf.training.checkpoints import Checkpoints
from tests.reliability.kills import Kills

WRITES_FOR_EVER = """
import pathlib, sys, numpy as np
from doap_tf.training.checkpoints import Checkpoints
checkpoints = Checkpoints(pathlib.Path(sys.argv[1]))
step = int(sys.argv[2])
while True:
    step += 1
    checkpoints.save(step, {"weights": np.full(300_000, step)}, {"step": step})
    print(step, flush=True)
"""


def test_the_newest_checkpoint_is_whole_at_every_instant(tmp_path):
    random = np.random.default_rng()
    step, in_writes = 0, 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITES_FOR_EVER, str(tmp_path), str(step)],
            stdout=subprocess.PIPE,
        ) as process:
            said = int(process.stdout.readline())
            time.sleep(random.uniform(0, 0.02))
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split()
        arrays, state = Checkpoints(tmp_path).newest()
        step = state["step"]
        assert step >= int((rest or [said])[-1])
        np.testing.assert_array_equal(arrays["weights"], np.full(300_000, step))
        in_writes += any(name.endswith(".partial") for name in os.listdir(tmp_path))
    assert in_writes, "not one of the kills hit a write"


@pytest.mark.slow
def test_killed_trainings_end_bit_identical(tmp_path):
    kills = Kills(tmp_path)
    newest = [kills.run(number).checkpoint for number in range(4)]  # `run` compares their ends
    assert max(newest) < 40, "a run had ended before it was killed"
