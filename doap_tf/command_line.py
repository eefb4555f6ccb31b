"""How every command starts and ends: flags, quiet libraries, one line for bad input, exit codes."""

import errno
import io
import logging as python_logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from doap_tf.errors import InputError, Interrupted, is_out_of_memory

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 75
_EXIT_STOPPED = 128 + signal.SIGINT

_DISK_ERRORS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG}
    | {errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)


def run(main: Callable[[Sequence[str]], Any]) -> NoReturn:
    """Parses the flags, calls `main` and exits.

    The code is 0 if all is done, 2 for bad input, 75 if the same command resumes, 130 after Ctrl-C
    elsewhere, 1 for a bug.

    Messages and warnings of libraries are shown only if --verbosity is given.
    """
    if not any(re.match(r"--?(v|verbosity)\b", argument) for argument in sys.argv[1:]):
        _silence_libraries()
    module = sys.modules[main.__module__]
    sys.modules["__main__"].__doc__ = module.__doc__  # absl's --help shows it, and these flags
    for flag in flags.FLAGS.get_flags_for_module(module):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        app.run(lambda argv: _guarded(main, argv), flags_parser=_parse)
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _parse(argv: Sequence[str]) -> Sequence[str]:
    try:
        rest = flags.FLAGS(list(argv))
    except flags.Error as error:
        _fail(f"{error} (--helpfull lists all flags)", EXIT_BAD_INPUT)
    except ValueError as error:  # raised by absl for binary files
        _fail(f"a flag file cannot be read: {error}.", EXIT_BAD_INPUT)
    except SystemExit:  # --help, which absl ends with 1
        sys.exit()
    _expand_home()
    if len(rest) > 1:
        _fail(
            f"unexpected arguments: {' '.join(rest[1:])} (flags are written --name=value).",
            EXIT_BAD_INPUT,
        )
    return rest


def _expand_home() -> None:
    """Expands `~` at the start of all values; a shell does not, in --name=~/folder."""
    for name in flags.FLAGS:
        flag = flags.FLAGS[name]
        if isinstance(flag.value, str):
            flag.value = os.path.expanduser(flag.value)
        elif isinstance(flag.value, list):
            flag.value = [os.path.expanduser(item) for item in flag.value]


def _guarded(main: Callable[[Sequence[str]], Any], argv: Sequence[str]) -> None:
    try:
        main(argv)
    except InputError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        _fail(
            f"{error.filename or 'a file'} cannot be written ({os.strerror(error.errno)}): make "
            "room, or choose a folder that can be written to.",
            EXIT_BAD_INPUT,
        )
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("doap_tf"):
            raise
        _fail(
            f"this needs {error.name}, which is not installed: install doap_tf with all that it "
            "requires, or that package.",
            EXIT_BAD_INPUT,
        )
    except Interrupted as interruption:
        _fail(str(interruption), EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        _fail("stopped by Ctrl-C; files that were complete are kept.", _EXIT_STOPPED)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        _fail(
            f"out of memory ({reason}): use smaller images, fewer keypoints or smaller batches.",
            EXIT_BAD_INPUT,
        )


def _silence_libraries() -> None:
    # Libraries read these when they are imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("OPENCV_LOG_LEVEL", "OFF")
    warnings.simplefilter("ignore")
    python_logging.getLogger("tensorflow").setLevel(python_logging.ERROR)
    logging.set_verbosity(logging.WARNING)
    handler = logging.get_absl_handler()
    handler.addFilter(lambda record: "tensorflow_datasets" not in record.pathname)
    handler.setFormatter(python_logging.Formatter("%(levelname)s: %(message)s"))


def _fail(message: str, code: int) -> NoReturn:
    print("error: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(code)
