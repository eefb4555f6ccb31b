"""Silencing native code that prints to stderr and has no setting for it."""

import contextlib
import importlib.abc
import importlib.machinery
import os
import sys
import threading
import types
from collections.abc import Iterator, Sequence

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


def import_tensorflow_quietly() -> None:
    """Discards what TensorFlow writes to stderr while it is imported, whoever imports it.

    Afterwards it logs nothing but what is fatal, unless `TF_CPP_MIN_LOG_LEVEL` says otherwise.
    """
    if not any(isinstance(finder, _QuietTensorFlow) for finder in sys.meta_path):
        sys.meta_path.insert(0, _QuietTensorFlow())


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_quietly(module: types.ModuleType) -> None:
                os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read once, here
                with stderr_discarded():
                    execute(module)

            spec.loader.exec_module = execute_quietly  # type: ignore[method-assign]
        return spec
