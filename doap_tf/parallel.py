"""Using all cores: threads for NumPy and OpenCV calls, which release the interpreter's lock, and
processes for other work."""

import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


_share = threading.local()


def cores() -> int:
    """Returns the number of cores that this thread may use.

    The threads of `parallel_map` and `map_ahead` share those of the process, so that what one of
    them calls starts no threads that only get in the way of the others.
    """
    if hasattr(_share, "cores"):
        return _share.cores
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Leaves this thread one core, where others do the same work beside it."""
    before = vars(_share).copy()
    _set_share(1)
    try:
        yield
    finally:
        vars(_share).clear()
        vars(_share).update(before)


def parallel_map(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None
) -> list[Result]:
    """Returns `[function(item) for item in items]`, computed by threads as the items come.

    Args:
        function: What releases the interpreter's lock.
        items: Its arguments, taken by this thread.
        threads: Number of threads; one per core by default. One means this thread.
    """
    threads = threads or cores()
    if threads == 1:
        return list(map(function, items))
    with _thread_pool(threads) as pool:
        return list(pool.map(function, items))


def map_ahead(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    threads: int | None = None,
    ahead: int = 2,
) -> Generator[Result]:
    """Like `map`, in order, computed ahead by threads.

    Args:
        function: What releases the interpreter's lock.
        items: Its arguments, taken by the thread that takes the results.
        threads: Number of threads; one per core by default.
        ahead: Number of results per thread that wait to be taken.
    """
    threads = threads or cores()
    pool = _thread_pool(threads)
    try:
        yield from _submit_ahead(pool, function, items, ahead * threads)
    finally:
        # After an error, what has not begun does not begin.
        pool.shutdown(cancel_futures=True)


def process_map(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int | None = None
) -> Iterator[Result]:
    """Like `map`, in order, computed by processes up to two results per process ahead.

    Args:
        function: Any function, closures included; OpenCV uses one thread in each process.
        items: Its arguments.
        processes: Number of processes; one per core by default. One means this process.
    """
    processes = min(processes or cores(), len(items))
    if processes <= 1:
        yield from map(function, items)
        return
    from joblib.externals import loky

    # Unlike the standard library's, these processes neither inherit TensorFlow's threads nor run
    # the caller's script again.
    pool = loky.ProcessPoolExecutor(
        processes, initializer=_prepare_process, initargs=(os.getpid(),)
    )
    try:
        yield from _submit_ahead(pool, function, items, 2 * processes)
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _thread_pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, initializer=_set_share, initargs=(cores() // threads,))


def _set_share(count: int) -> None:
    _share.cores = max(1, count)


def _submit_ahead(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], limit: int
) -> Iterator[Result]:
    ahead: collections.deque[Future[Result]] = collections.deque()
    for item in items:
        ahead.append(pool.submit(function, item))
        if len(ahead) > limit:
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _prepare_process(parent: int) -> None:
    import cv2

    cv2.setNumThreads(1)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Ends this process if its parent was killed; it would wait forever to return a result."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
