"""Runs a command by its name: `python -m doap_tf match a.jpg b.jpg`."""

import importlib
import sys

from doap_tf.command_line import EXIT_BAD_INPUT
from doap_tf.errors import suggestion
from doap_tf.version import __version__

#: The commands, each with what it does.
COMMANDS = {
    "match": "matches images",
    "train": "trains a network that describes patches",
    "train-dense": "trains a network that reads whole images",
    "train-keypoints": "trains a detector",
    "prepare": "cuts training patches",
    "evaluate": "evaluates descriptors on benchmarks",
    "export": "exports a network for servers, phones and others",
}


def main() -> None:
    """Runs the command that the first argument names, or lists the commands."""
    arguments = sys.argv[1:]
    if arguments in ([], ["--help"], ["-h"]):
        print(f"doap_tf {__version__}: python -m doap_tf COMMAND --help says more\n")
        print("\n".join(f"  {name:<16} {text}" for name, text in COMMANDS.items()))
    elif arguments[0] in COMMANDS:
        sys.argv[:] = [f"python -m doap_tf {arguments[0]}", *arguments[1:]]
        importlib.import_module(f"doap_tf.commands.{arguments[0].replace('-', '_')}").run()
    elif arguments == ["--version"]:
        print(f"doap_tf {__version__}")
    else:
        names = ", ".join(COMMANDS)
        hint = suggestion(arguments[0], COMMANDS)
        print(f"error: {arguments[0]} is none of the commands {names}.{hint}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
