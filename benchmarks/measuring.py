"""What all benchmarks share: machine and versions, interleaved rounds, tables of ratios."""

import importlib
import multiprocessing
import os
import pathlib
import platform
import time
import types
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata

from absl import flags

from doap_tf.drawing.tables import Table
from doap_tf.parallel import cores

FLAGS = flags.FLAGS
flags.DEFINE_integer("rounds", 3, "Number of rounds; the fastest counts.")
flags.DEFINE_enum(
    "clock",
    "wall",
    ["wall", "cpu"],
    "cpu counts processor time, which other programs do not lengthen: for a busy machine, with the "
    "command pinned to one core (taskset -c 0 python …).",
)

_LEAST = 0.2  # seconds per round: quick functions are called repeatedly


def print_setting(*packages: str) -> None:
    """Prints the machine, its load, and the versions of Python and of `packages`."""
    count = f"{cores()} {'core' if cores() == 1 else 'cores'}"
    system = f"{_processor()}, {count}, {platform.system()}, {FLAGS.clock} time"
    load = f", load {os.getloadavg()[0]:.1f} at the start" if hasattr(os, "getloadavg") else ""
    versions = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    print(f"{system}{load}\n{', '.join(versions)}\n", flush=True)


def peer(module: str) -> types.ModuleType | None:
    """Imports an optional peer; if it is missing, prints how to install it and returns None."""
    try:
        return importlib.import_module(module)
    except ImportError:
        print(f"{module} is left out: install it with `pip install {module}`.\n", flush=True)
        return None


def clock() -> float:
    """Returns the seconds that --clock shows."""
    return time.perf_counter() if FLAGS.clock == "wall" else _cpu_time()


def seconds(function: Callable[[], object]) -> float:
    """Returns the mean time of a call in one round."""
    start, calls = clock(), 0
    while True:
        function()
        calls += 1
        passed = clock() - start
        if passed >= _LEAST:
            return passed / calls


def fastest(functions: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Returns the seconds that each function takes in the best of --rounds.

    The functions take turns, so that other load on the machine affects all of them.
    """
    for function in functions.values():
        function()  # traces, allocates and fills caches
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(FLAGS.rounds):
        for name, function in functions.items():
            times[name].append(seconds(function))
    return {name: min(values) for name, values in times.items()}


def print_table(
    title: str,
    times: Mapping[str, float],
    peers: Sequence[str],
    further: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Prints a Markdown table of milliseconds and of speeds relative to peers.

    Args:
        title: Heading of the column of names.
        times: Seconds by name.
        peers: Names that all others are compared with; those without a time are left out.
        further: Further columns: heading → name → text.
    """
    rows = {
        name: {
            "ms": f"{1e3 * value:,.{1 if value < 1 else 0}f}",
            **{
                f"× as fast as {other}": "" if name == other else f"{times[other] / value:.2f}"
                for other in peers
                if other in times
            },
            **{heading: column.get(name, "") for heading, column in (further or {}).items()},
        }
        for name, value in times.items()
    }
    print(Table(rows, title).markdown() + "\n", flush=True)


def _cpu_time() -> float:
    """Returns the processor time of this process and its workers, on Linux."""
    workers = multiprocessing.active_children()
    # Linux derives the number of a process's clock from the process number.
    return time.process_time() + sum(time.clock_gettime((~w.pid << 3) | 2) for w in workers)


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} ({platform.machine()})" if names else platform.machine()
