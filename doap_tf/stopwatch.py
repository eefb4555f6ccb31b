"""Measuring where the time of a run goes."""

import collections
import contextlib
import threading
import time
from collections.abc import Iterator


class Stopwatch:
    """Adds up the wall time of named stages, in all threads."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = collections.defaultdict(float)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Adds the time until the block ends, however it ends."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._seconds[stage] += time.perf_counter() - start

    def seconds(self) -> dict[str, float]:
        """Returns the seconds of every stage, in the order in which they first ended."""
        return {stage: round(seconds, 3) for stage, seconds in self._seconds.items()}
