"""Silencing native code that prints to stderr and has no setting for it."""

import contextlib
import os
import threading
from collections.abc import Iterator

_LOCK = threading.RLock()


@contextlib.contextmanager
def stderr_discarded() -> Iterator[None]:
    """Discards what anything in this process writes to stderr, in one thread at a time."""
    with _LOCK, open(os.devnull, "w") as null:
        stderr = os.dup(2)
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
