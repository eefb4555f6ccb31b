"""Mapping a function over items in several processes, in order, with few results in memory."""

from __future__ import annotations

import collections
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import cv2
import joblib.externals.loky

Item = TypeVar("Item")
Result = TypeVar("Result")


def process_map(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int | None = None
) -> Iterator[Result]:
    """Like `map`, but at most two items a process are computed ahead of the one asked for.

    Args:
        function: any function, closures included; OpenCV gets one thread in each process.
        items: what it is applied to.
        processes: how many; as many as there are cores if not given. One means this process.
    """
    processes = min(processes or os.cpu_count() or 1, len(items))
    if processes <= 1:
        yield from map(function, items)
        return
    # Unlike the standard library's, these processes neither inherit TensorFlow's threads nor run
    # the caller's script again.
    pool = joblib.externals.loky.ProcessPoolExecutor(
        processes, initializer=_prepare_process, initargs=(os.getpid(),)
    )
    try:
        ahead: collections.deque = collections.deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > 2 * processes:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _prepare_process(parent: int) -> None:
    cv2.setNumThreads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process if its parent was killed; it would wait for ever to hand over a result."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
