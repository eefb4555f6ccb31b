"""Recipes: flag files that are installed with doap_tf, each for one command that trains.

A wheel holds the folder `flags/` inside `doap_tf`; a clone and an editable install have it beside.
"""

import os
import pathlib
import re
import sys
from collections.abc import Sequence

from absl import flags

from doap_tf.command_line import program_name
from doap_tf.errors import InputError, check_choice, suggestion

flags.disclaim_key_flags()  # --help lists them with the flags of the command

_PACKAGE = pathlib.Path(__file__).parents[1]
#: Commands by what names them in flag files.
_COMMANDS = {
    "train_main.py": "train",
    "train_keypoints": "train-keypoints",
    "train_dense": "train-dense",
}


def define_recipe_flags() -> None:
    """Defines --recipe and --recipes, as flags of the calling module."""
    flags.DEFINE_string("recipe", None, "Settings that are installed with doap_tf, by name.")
    flags.DEFINE_boolean("recipes", False, "List the recipes of this command.")


def recipe_files(command: str) -> dict[str, pathlib.Path]:
    """Returns the recipes of a command, such as `train` or `train-dense`, by name."""
    folder = _PACKAGE / "flags"
    if not folder.is_dir():
        folder = _PACKAGE.parent / "flags"
    paths = sorted(folder.glob("*.cfg"))
    return {path.stem: path for path in paths if _command_of(path) == command}


def expand_recipes(argv: Sequence[str], command: str) -> list[str]:
    """Replaces --recipe=NAME by the flag file; with --recipes, lists them and exits.

    A flag file `flags/NAME.cfg` that is not in the current folder is taken for the recipe.
    """
    recipes = recipe_files(command)
    if any(re.fullmatch("--?recipes(=(true|t|1))?", argument, re.I) for argument in argv):
        width = max(map(len, recipes))
        print("\n".join(f"{name:<{width}}  {_title(path)}" for name, path in recipes.items()))
        print(f"\nuse one with {program_name()} --recipe=NAME")
        sys.exit()
    expanded = re.sub(r"(?m)^--?recipe\n", "--recipe=", "\n".join(argv)).split("\n")
    return [_flag_file(argument, recipes) for argument in expanded]


def _flag_file(argument: str, recipes: dict[str, pathlib.Path]) -> str:
    name = re.fullmatch(r"--?recipe=(.*)", argument)
    if name:
        for command in _COMMANDS.values():
            if name[1] not in recipes and name[1] in recipe_files(command):
                raise InputError(f"{name[1]} is a recipe of doap-{command}.")
        check_choice("--recipe", name[1], recipes)
        return f"--flagfile={recipes[name[1]]}"
    file = re.fullmatch(r"--?flagfile=((?:\./)?flags/([\w-]+)\.cfg)", argument)
    if file is None or os.path.exists(file[1]):
        return argument
    if file[2] not in recipes:
        raise InputError(
            f"{file[1]} does not exist, and the recipes that are installed are "
            f"{', '.join(recipes)}.{suggestion(file[2], recipes)}"
        )
    return f"--flagfile={recipes[file[2]]}"


def _command_of(path: pathlib.Path) -> str:
    """The command that the comments at the start of a flag file use it with."""
    named = re.findall("|".join(map(re.escape, _COMMANDS)), path.read_text("utf-8"))
    return _COMMANDS[named[0]] if named else "train"


def _title(path: pathlib.Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()
