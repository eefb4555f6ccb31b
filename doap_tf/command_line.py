"""How every command starts and ends: flags, quiet libraries, one line for bad input, exit codes."""

import errno
import functools
import io
import logging as python_logging
import os
import pathlib
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app, flags, logging

from doap_tf.errors import InputError, Interrupted, check_choice, is_out_of_memory
from doap_tf.quiet import import_tensorflow_quietly
from doap_tf.version import __version__

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 75
_EXIT_STOPPED = 128 + signal.SIGINT

_DISK_ERRORS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG}
    | {errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS}
)


import_tensorflow_quietly()  # before a command imports what imports it

flags.DEFINE_boolean("version", False, "Print the version.")


def run(
    main: Callable[[Sequence[str]], Any],
    arguments: str = "",
    expand: Callable[[Sequence[str]], Sequence[str]] = list,
) -> NoReturn:
    """Parses the flags, calls `main` and exits.

    Args:
        main: Is given the name of the program and the arguments that are no flags.
        arguments: What such arguments are, for --help; by default there must be none.
        expand: Changes the command line before it is parsed.

    The code is 0 if all is done, 2 for bad input, 75 if the same command resumes, 130 after Ctrl-C
    elsewhere, 1 for a bug.

    Messages and warnings of libraries are shown only if --verbosity is given.
    """
    if not any(re.match(r"--?(v|verbosity)\b", argument) for argument in sys.argv[1:]):
        _silence_libraries()
    module = sys.modules[main.__module__]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # whatever the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        if any(re.fullmatch(r"--?(h|help|helpshort|\?)", argument) for argument in sys.argv[1:]):
            print(_help(module, arguments))
            sys.exit()
        parse = functools.partial(_parse, takes_arguments=bool(arguments), expand=expand)
        app.run(lambda argv: _guarded(main, argv), flags_parser=parse)
    except BrokenPipeError:  # whoever read the output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def program_name() -> str:
    """How this command was called: `doap-match`, or `python match_main.py`."""
    path = pathlib.Path(sys.argv[0])
    if path.suffix != ".py":
        return path.name
    module = sys.modules["__main__"].__spec__
    return f"python -m {module.name}" if module else f"python {path.name}"


def _help(module: types.ModuleType, arguments: str) -> str:
    """The command's docstring, with the name by which it was called, and its flags."""
    program = program_name()
    for flag in flags.FLAGS.get_flags_for_module(module):
        flags.FLAGS.register_key_flag_for_module(program, flag)
    flags.FLAGS.register_key_flag_for_module(program, flags.FLAGS["version"])
    text = re.sub(r"python (-m )?[\w./]+", program, module.__doc__ or "", flags=re.M).strip()
    usage = " ".join(filter(None, [program, arguments, "[--FLAG=VALUE ...]"]))
    listed = flags.FLAGS.module_help(program).split("\n", 2)[2]  # without the program's name
    return f"{text}\n\nusage: {usage}\n\n{listed}"


def _parse(
    argv: Sequence[str],
    takes_arguments: bool = False,
    expand: Callable[[Sequence[str]], Sequence[str]] = list,
) -> Sequence[str]:
    flags.FLAGS.set_gnu_getopt(True)  # flags may stand behind arguments
    try:
        rest = flags.FLAGS(list(expand(argv)))
    except InputError as error:
        _fail(str(error), EXIT_BAD_INPUT)
    except flags.Error as error:
        _fail(f"{_flag_error(error)} ({program_name()} --help lists the flags)", EXIT_BAD_INPUT)
    except ValueError as error:  # raised by absl for binary files
        _fail(f"a flag file cannot be read: {error}.", EXIT_BAD_INPUT)
    except SystemExit:  # --helpfull, which absl ends with 1
        sys.exit()
    if flags.FLAGS.version:
        print(f"doap_tf {__version__}")
        sys.exit()
    _expand_home()
    if len(rest) > 1 and not takes_arguments:
        _fail(
            f"unexpected arguments: {' '.join(rest[1:])} (flags are written --name=value).",
            EXIT_BAD_INPUT,
        )
    return rest


def _flag_error(error: flags.Error) -> str:
    """The message of an error; for one of several choices as `check_choice` says it."""
    text = str(error)
    wrong = re.fullmatch(r"flag (--\w+)=(.*): value should be one of <(.*)>", text, re.S)
    if wrong:
        try:
            check_choice(wrong[1], wrong[2], wrong[3].split("|"))
        except InputError as clearer:
            return str(clearer)
    return text


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
