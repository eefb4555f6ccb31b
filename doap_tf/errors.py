"""Telling what a user can mend, bad input or too little memory, or stopped, from a bug."""

import contextlib
import difflib
import os
from collections.abc import Collection, Iterable, Iterator

_ALIKE = 0.7  # share of letters that two spellings of a name have in common


class InputError(ValueError):
    """Bad input. The message is one line: what was found, what is expected, what to do."""


class Interrupted(Exception):
    """Raised when a signal stopped work that the same command will resume."""


def check_choice(name: str, value: object, choices: Collection[str | None]) -> None:
    """Raises an InputError that lists the choices unless the value is one of them."""
    if value not in choices:
        hint = suggestion(value, choices)
        raise InputError(
            f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}.{hint}"
        )


def suggestion(value: object, choices: Iterable[str | None]) -> str:
    """Returns " Did you mean NAME?" with the choice that is spelled most alike, or nothing."""
    names = {str(choice).lower(): choice for choice in choices}
    close = difflib.get_close_matches(str(value).lower(), names, 1, _ALIKE)
    return f" Did you mean {names[close[0]]}?" if close else ""


def one_line(error: BaseException) -> str:
    """Returns the text of an error without line breaks."""
    return " ".join(str(error).split())


def error_line(error: BaseException) -> str:
    """Returns the kind and the text of an error in one line."""
    return f"{type(error).__name__}: {one_line(error)}"


@contextlib.contextmanager
def writing_to(path: str | os.PathLike, *kinds: type[Exception]) -> Iterator[None]:
    """Turns errors of a library that writes a file or folder into an InputError that names it."""
    try:
        yield
    except kinds as error:
        reason = one_line(error).rpartition("; ")[2]  # TensorFlow puts names of files before it
        raise InputError(
            f"{path} cannot be written ({reason}): make room, or choose another folder."
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy, OpenCV or TensorFlow says that there is too little memory."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "ResourceExhaustedError"
        or any(words in str(error) for words in ("Insufficient memory", "bad_alloc"))
    )
