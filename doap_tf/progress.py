"""The progress of long work: a bar on a terminal, elsewhere a line every ten seconds."""

import sys
from typing import Any, TextIO

import tqdm

_SECONDS = 10.0  # between lines
_LINE = "{desc}: {n_fmt} of {total_fmt} after {elapsed}, {remaining} left{postfix}"
_LINE_WITHOUT_TOTAL = "{desc}: {n_fmt} after {elapsed}{postfix}"


def progress(items: Any = None, title: str = "", **options: Any) -> tqdm.tqdm:
    """Gives `items` one by one and shows how far they are; without items, call its `update`.

    Args:
        items: What is worked through, or None.
        title: Stands before the bar.
        **options: Those of `tqdm.tqdm`, such as `total` and `unit`.
    """
    if not sys.stderr.isatty():
        sized = options.get("total") or hasattr(items, "__len__")
        options = {
            "file": _Lines(sys.stderr),
            "bar_format": _LINE if sized else _LINE_WITHOUT_TOTAL,
            "mininterval": _SECONDS,
            "delay": _SECONDS,
            "leave": False,
            **options,
        }
    return tqdm.tqdm(items, title, **options)


class _Lines:
    """A stream to which a bar is written as lines, each below the last."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> None:
        if text.strip():
            self._stream.write(text.strip() + "\n")

    def flush(self) -> None:
        self._stream.flush()
