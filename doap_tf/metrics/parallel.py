"""Running NumPy and OpenCV calls, which release the interpreter's lock, on all cores."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Gives `[function(item) for item in items]`, computed by one thread a core."""
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, items))
