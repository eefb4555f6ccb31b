"""How every command starts and ends: flags, one clear line for bad input, exit codes."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

# TensorFlow's start-up chatter would bury our own lines; it must be set before the import.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags, logging

from doap_tf.errors import InputError

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 75

_DISK_REFUSALS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.ENOSPC, errno.EPERM, errno.EROFS}
)


class Interrupted(Exception):
    """Raised when a signal stopped work that the same command will resume."""


def run(main: Callable[[Sequence[str]], Any]) -> NoReturn:
    """Parses the flags, calls `main` and exits: 0 done, 2 bad input, 75 interrupted, 1 a bug."""
    app.run(lambda argv: _guarded(main, argv), flags_parser=_parse)


def _parse(argv: Sequence[str]) -> Sequence[str]:
    try:
        rest = flags.FLAGS(list(argv))
    except flags.Error as error:
        _fail(f"{error} Run with --helpfull for all flags.", EXIT_BAD_INPUT)
    except ValueError as error:  # absl's answer to what is no text
        _fail(f"a flag file cannot be read: {error}.", EXIT_BAD_INPUT)
    if len(rest) > 1:
        _fail(
            f"unexpected arguments: {' '.join(rest[1:])} (flags are written --name=value).",
            EXIT_BAD_INPUT,
        )
    return rest


def _guarded(main: Callable[[Sequence[str]], Any], argv: Sequence[str]) -> None:
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # TensorFlow's own notes would bury ours
    try:
        main(argv)
    except InputError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except OSError as error:
        if error.errno not in _DISK_REFUSALS:
            raise
        _fail(
            f"{error.filename or 'a file'} cannot be written ({os.strerror(error.errno)}): make "
            "room, or choose a folder that can be written to.",
            EXIT_BAD_INPUT,
        )
    except Interrupted as interruption:
        _fail(str(interruption), EXIT_INTERRUPTED)


def _fail(message: str, code: int) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
