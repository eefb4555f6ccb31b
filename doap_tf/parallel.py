"""Running NumPy and OpenCV calls, which release the interpreter's lock, on all cores."""

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def map_ahead(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Like `map`, in order, with at most two results a core ahead of the one asked for."""
    threads = cores()
    with ThreadPoolExecutor(threads) as pool:
        ahead: collections.deque[Future[Result]] = collections.deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
