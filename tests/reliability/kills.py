"""Killing training at chosen points, and checking that it ends as if it had never been killed."""

import json
import pathlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import doap_tf
from doap_tf import command_line
from tests.training import launch

FLAGS = (
    *launch.TINY[:-1],
    "--validate_every=10",
    "--steps=40",
    "--dropout=0.3",
    "--turn",
    "--checkpoint_every=2",
)

# Runs train_main.py, counts some calls, and kills itself at a chosen one.
_TRAIN = """
import atexit, collections, json, os, runpy, signal, sys
import tqdm

place, limit = sys.argv[1], int(sys.argv[2])
calls = collections.Counter()

def count(owner, name):
    function = getattr(owner, name)

    def counted(*arguments, **options):
        calls[name] += 1
        if (name, calls[name]) == (place, limit):
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)

    setattr(owner, name, counted)

count(os, "fsync")         # a temporary file is written
count(os, "replace")       # and on the disk
count(tqdm.tqdm, "update") # a step is done
atexit.register(lambda: print(json.dumps(calls)))
sys.argv = ["train_main.py", *sys.argv[3:]]
runpy.run_path("train_main.py", run_name="__main__")
"""


class Kill(NamedTuple):
    """One killed run.

    Attributes:
        moment: Where it was killed, in words.
        checkpoint: Steps of the newest checkpoint at that time, −1 if there was none.
        writing: Names of what was being written.
    """

    moment: str
    checkpoint: int
    writing: list[str]


class Kills:
    """Kills runs and compares what they end with.

    Args:
        folder: Where the runs are written.
        seed: Chooses the calls at which runs are killed.
    """

    def __init__(self, folder: pathlib.Path, seed: int = 0):
        self._folder = folder
        self._random = np.random.default_rng(seed)
        self._groups = launch.make_groups().save(folder / "groups").directory
        output = self._train(folder / "uninterrupted")
        self._calls: dict[str, int] = json.loads(output.splitlines()[-1])
        self._expected = outcome(folder / "uninterrupted")

    def run(self, number: int) -> Kill:
        """Kills one run, then repeats the command; raises if it ends differently."""
        train_dir = self._folder / f"killed_{number}"
        place = sorted(self._calls)[number % len(self._calls)]
        limit = int(self._random.integers(1, self._calls[place] + 1))
        self._train(train_dir, -signal.SIGKILL, place, limit)
        kill = Kill(f"at {place} {limit}", _newest_step(train_dir), _being_written(train_dir))
        self._train(train_dir)
        check_equal(outcome(train_dir), self._expected)
        return kill

    def run_out_of_room(self, train_dir: pathlib.Path, make_room: Callable[[], None]) -> str:
        """Trains on a disk that is too small, then with room; returns the first run's error."""
        output = self._train(train_dir, command_line.EXIT_BAD_INPUT)
        errors = re.findall(r"error: .* cannot be written.*", output)
        if len(errors) != 1 or "Traceback" in output:
            raise AssertionError(output)
        make_room()
        self._train(train_dir)
        check_equal(outcome(train_dir), self._expected)
        return errors[0]

    def _train(
        self, train_dir: pathlib.Path, code: int = 0, place: str = "nowhere", limit: int = 0
    ) -> str:
        flags = [f"--groups={self._groups}", f"--train_dir={train_dir}", *FLAGS]
        finished = subprocess.run(
            [sys.executable, "-c", _TRAIN, place, str(limit), *flags],
            cwd=launch.REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if finished.returncode != code:
            raise AssertionError(f"exit code {finished.returncode}:\n{finished.stdout[-3000:]}")
        return finished.stdout


def outcome(train_dir: pathlib.Path) -> dict:
    """Everything that a finished run ends with, except for times."""
    record = json.loads((train_dir / "train.json").read_text())
    patches = np.random.default_rng(0).integers(0, 256, [8, 32, 32]).astype(np.uint8)
    history = [
        {name: value for name, value in entry.items() if name != "patches_per_second"}
        for entry in record["history"]
    ]
    return {
        "arrays": launch.last_checkpoint(train_dir),
        "history": history,
        "best": record["best"],
        "model": doap_tf.from_pretrained(train_dir).weights_sha256,
        "exported": doap_tf.from_pretrained(train_dir / "saved_model").describe(patches).tobytes(),
        "files": sorted(path.name for path in train_dir.glob("[!.]*")),
    }


def check_equal(found: dict, expected: dict) -> None:
    """Raises an AssertionError unless two outcomes are the same, bit for bit."""
    assert found["arrays"].keys() == expected["arrays"].keys()
    for name, array in expected["arrays"].items():
        np.testing.assert_array_equal(found["arrays"][name], array, err_msg=name)
    for name in expected.keys() - {"arrays"}:
        assert found[name] == expected[name], f"{name} is {found[name]}, not {expected[name]}"


def _being_written(train_dir: pathlib.Path) -> list[str]:
    return sorted(path.name for path in train_dir.rglob(".*.partial"))


def _newest_step(train_dir: pathlib.Path) -> int:
    names = (train_dir / "checkpoints").glob("step-*.npz")
    return max((int(path.stem.removeprefix("step-")) for path in names), default=-1)
