"""Reading ahead on all cores with a bounded number of results in memory."""

import collections
import concurrent.futures
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Like `map`, in order, over as many threads as there are cores.

    At most two results a thread are computed ahead of the one that is asked for. Threads suffice
    where OpenCV or zlib does the work, since both release Python's lock.
    """
    threads = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        ahead: collections.deque[concurrent.futures.Future[Result]] = collections.deque()
        for item in items:
            ahead.append(pool.submit(function, item))
            if len(ahead) > 2 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
