"""The images of a collection, by name."""

import glob
import os
import pathlib
import re

from doap_tf.errors import InputError
from doap_tf.files import printable
from doap_tf.readers.images import IMAGE_SUFFIXES


def find_images(patterns: str) -> dict[str, pathlib.Path]:
    """Finds image files.

    Args:
        patterns: One or more, separated by commas: folders, which are searched with all folders
            below them, or patterns as in a shell, with `**` for folders of any depth and `{a,b}`
            for alternatives.

    Returns:
        Paths by name, in order of name: the path below the folder that all of them share.
    """
    files: set[pathlib.Path] = set()
    roots = []
    exists = os.path.exists(os.path.expanduser(patterns))  # commas may be part of a name
    for pattern in map(os.path.expanduser, [patterns] if exists else _alternatives(patterns)):
        if os.path.isdir(pattern):
            below = pathlib.Path(pattern).rglob("*")
            paths = [path for path in below if path.suffix.lower() in IMAGE_SUFFIXES]
            roots.append(os.path.abspath(pattern))
        else:
            paths = [pathlib.Path(path) for path in glob.glob(pattern, recursive=True)]
            parts = pathlib.Path(pattern).parts
            magic = [index for index, part in enumerate(parts) if glob.has_magic(part)]
            fixed = parts[: magic[0] if magic else len(parts) - 1]
            roots.append(os.path.abspath(os.path.join("", *fixed)))
        matching = [path for path in paths if path.is_file()]
        if not matching:
            raise InputError(f"no image file matches {pattern!r}.")
        files.update(matching)
    root = os.path.commonpath(roots)
    named = {pathlib.Path(os.path.relpath(path, root)).as_posix(): path for path in files}
    for name in named:
        if printable(name) != name:
            raise InputError(f"the name of {printable(name)} is not UTF-8: rename the file.")
    return dict(sorted(named.items()))


def _alternatives(patterns: str) -> list[str]:
    """Splits patterns at commas outside of braces, then expands the braces."""
    expanded: list[str] = []
    for pattern in re.split(r",(?![^{]*\})", patterns):
        if braces := re.search(r"\{([^{}]*)\}", pattern):
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            for choice in braces[1].split(","):
                expanded += _alternatives(before + choice + after)
        else:
            expanded.append(pattern)
    return expanded
