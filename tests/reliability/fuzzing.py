"""Feeding damaged files to a reader and counting the outcomes."""

import collections
import pathlib
import re
import traceback
from collections.abc import Iterator
from typing import NamedTuple

from doap_tf.errors import InputError
from tests.reliability.targets import Target


class Counts(NamedTuple):
    """Outcomes of reading damaged inputs.

    Attributes:
        accepted: Read without an error, such as a picture with a flipped pixel.
        refused: Answered with an InputError.
        wrong: Other exceptions, by description; must be empty.
        growth_mb: Peak memory beyond what was in use before.
    """

    accepted: int
    refused: int
    wrong: dict[str, int]
    growth_mb: float


def fuzz(target: Target, count: int, folder: pathlib.Path, seed: int = 0) -> Counts:
    """Reads `count` damaged inputs from `folder`, one after the other."""
    outcomes: collections.Counter[str] = collections.Counter()
    wrong: collections.Counter[str] = collections.Counter()
    for files in target.examples:
        write_files(folder, files)
        target.read(folder)  # undamaged files must be accepted
        remove_files(folder, files)
    mutants: Iterator[dict[str, bytes]] = target.mutants(seed)
    before = reset_peak_mb()
    for _ in range(count):
        files = next(mutants)
        write_files(folder, files)
        try:
            target.read(folder)
            outcomes["accepted"] += 1
        except InputError:
            outcomes["refused"] += 1
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = re.sub(r"\d+", "#", str(error))[:120]
            wrong[f"{type(error).__name__} at {place.name}:{place.lineno}: {said}"] += 1
        remove_files(folder, files)
    growth = peak_mb() - before
    return Counts(outcomes["accepted"], outcomes["refused"], dict(wrong), growth)


def write_files(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def remove_files(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    for name in files:
        (folder / name).unlink(missing_ok=True)


def reset_peak_mb() -> float:
    """Resets the peak of this process's memory (Linux) and returns what is in use."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return memory_mb()


def memory_mb() -> float:
    return _status_mb("VmRSS")


def peak_mb() -> float:
    return _status_mb("VmHWM")


def _status_mb(name: str) -> float:
    status = pathlib.Path("/proc/self/status").read_text()
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {name}")
    return int(found[1]) / 1024
