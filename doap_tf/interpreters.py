"""Interpreters of a .tflite model, by LiteRT."""

import threading
from collections.abc import Callable, Hashable
from typing import Any

from doap_tf.parallel import cores
from doap_tf.quiet import stderr_discarded


class Interpreters:
    """Opens interpreters of one model and keeps those that were used last.

    An interpreter serves one thread at a time, which holds `lock`. A copy, or what is unpickled in
    another process, opens interpreters of its own.

    Args:
        model: Contents of a .tflite file.
        limit: Sum of the sizes of the interpreters that are kept.
    """

    def __init__(self, model: bytes, limit: int = 1):
        self.lock = threading.Lock()
        self._model = model
        self._limit = limit
        self._kept: dict[Hashable, tuple[Any, int]] = {}  # the last used at the end

    def __reduce__(self) -> tuple:
        return type(self), (self._model, self._limit)

    def get(self, key: Hashable, prepare: Callable[[Any], Any], size: int = 1) -> Any:
        """Returns what `prepare` makes of an interpreter, or has made of one for the same key.

        Raises:
            ValueError: The model is damaged.
        """
        prepared, _ = self._kept.pop(key, (None, 0))
        if prepared is None:
            # Imported here because training needs no LiteRT.
            from ai_edge_litert.interpreter import Interpreter

            with stderr_discarded():  # LiteRT announces its delegate
                prepared = prepare(Interpreter(model_content=self._model, num_threads=cores()))
            while self._kept and sum(kept for _, kept in self._kept.values()) + size > self._limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = prepared, size
        return prepared
