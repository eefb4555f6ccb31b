"""Killing training at any moment, and checking that it ends as if it had never been killed."""

import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import doap_tf
from doap_tf import commands
from tests.training import launch

FLAGS = (
    *launch.TINY[:-1],
    "--validate_every=10",
    "--steps=40",
    "--dropout=0.3",
    "--turn",
    "--affine_jitter=0.1",
    "--photometric_jitter=0.2",
    "--checkpoint_every=2",
)


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
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._random = np.random.default_rng()
        self._groups = launch.make_groups().save(folder / "groups").directory
        uninterrupted = folder / "uninterrupted"
        process = launch.start(*self._flags(uninterrupted))
        _wait_for(process, uninterrupted / "train.json")
        start = time.monotonic()
        launch.finish(process)
        self._seconds = time.monotonic() - start
        self._wanted = outcome(uninterrupted)

    def run(self, number: int) -> Kill:
        """Kills one run, then gives the same command again; raises if it ends otherwise.

        Every other run is killed while it writes, the rest at a random time.
        """
        for attempt in itertools.count():
            train_dir = self._folder / f"killed_{number}_{attempt}"
            process = launch.start(*self._flags(train_dir))
            _wait_for(process, train_dir / "train.json")
            if number % 2:
                moment = self._random.uniform(0, self._seconds)
                time.sleep(moment)
                said = f"after {moment:.1f} s"
            else:
                place = int(self._random.integers(1, 28))  # checkpoints, models and the export
                _wait_for_writing(process, train_dir, place)
                time.sleep(self._random.uniform(0, 0.004))
                said = f"at write {place}"
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if process.returncode == -signal.SIGKILL:  # else it was done before
                break
        kill = Kill(said, _newest_step(train_dir), sorted(_being_written(train_dir)))
        launch.train(*self._flags(train_dir))
        check_equal(outcome(train_dir), self._wanted)
        return kill

    def run_out_of_room(self, train_dir: pathlib.Path, make_room: Callable[[], None]) -> str:
        """Trains on a disk that is too small, then again with room; gives what was said first."""
        output = launch.train(*self._flags(train_dir), wanted=commands.EXIT_BAD_INPUT)
        # The progress bar may stand before it, and TensorFlow has errors of its own.
        errors = re.findall(r"error: .* cannot be written.*", output)
        if len(errors) != 1 or "Traceback" in output:
            raise AssertionError(output)
        make_room()
        launch.train(*self._flags(train_dir))
        check_equal(outcome(train_dir), self._wanted)
        return errors[0]

    def _flags(self, train_dir: pathlib.Path) -> tuple[str, ...]:
        return (f"--groups={self._groups}", f"--train_dir={train_dir}", *FLAGS)


def outcome(train_dir: pathlib.Path) -> dict:
    """All that a finished run ends with, but for times."""
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
        "files": sorted(path.name for path in train_dir.iterdir()),
    }


def check_equal(got: dict, wanted: dict) -> None:
    """Raises an AssertionError unless two outcomes are the same, bit for bit."""
    assert got["arrays"].keys() == wanted["arrays"].keys()
    for name, array in wanted["arrays"].items():
        np.testing.assert_array_equal(got["arrays"][name], array, err_msg=name)
    for name in wanted.keys() - {"arrays"}:
        assert got[name] == wanted[name], f"{name} is {got[name]}, not {wanted[name]}"


def _wait_for(process: subprocess.Popen, path: pathlib.Path) -> None:
    while not path.exists():
        if process.poll() is not None:
            raise AssertionError(process.communicate()[0])
        time.sleep(0.01)


def _wait_for_writing(process: subprocess.Popen, train_dir: pathlib.Path, count: int) -> None:
    """Returns while the count-th file since now, or the last before the end, is being written."""
    seen: set[str] = set()
    while len(seen) < count and process.poll() is None:
        seen |= _being_written(train_dir)


def _being_written(train_dir: pathlib.Path) -> set[str]:
    found = set()
    for folder in (train_dir, train_dir / "checkpoints", train_dir / "saved_model"):
        if folder.is_dir():
            found |= {name for name in os.listdir(folder) if name.endswith(".partial")}
    return found


def _newest_step(train_dir: pathlib.Path) -> int:
    names = (train_dir / "checkpoints").glob("step-*.npz")
    return max((int(path.stem.removeprefix("step-")) for path in names), default=-1)
