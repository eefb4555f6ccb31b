"""Which images of a collection are matched with which."""

import itertools
import os
import pathlib
from collections.abc import Sequence

from doap_tf.errors import InputError

Pair = tuple[str, str]


def exhaustive_pairs(names: Sequence[str]) -> list[Pair]:
    """Every image with every other."""
    return list(itertools.combinations(names, 2))


def sequential_pairs(names: Sequence[str], overlap: int) -> list[Pair]:
    """Every image with the `overlap` that follow it."""
    if overlap < 1:
        raise InputError(f"overlap must be at least 1, not {overlap}.")
    return [
        (first, second)
        for place, first in enumerate(names)
        for second in names[place + 1 : place + 1 + overlap]
    ]


def read_pairs(path: str | os.PathLike, names: Sequence[str]) -> list[Pair]:
    """Reads two names a line, as hloc writes them; a pair counts once, whichever way round.

    Args:
        path: The text file.
        names: The images that there are.
    """
    try:
        lines = pathlib.Path(path).read_text("utf-8").splitlines()
    except OSError as error:
        raise InputError(f"cannot read pairs {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text file of pairs: {error}.") from error
    known = set(names)
    pairs: dict[frozenset[str], Pair] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 2 or words[0] == words[1]:
            raise InputError(f"{path}, line {number}: {line!r}; wanted are two different names.")
        unknown = [name for name in words if name not in known]
        if unknown:
            raise InputError(
                f"{path}, line {number}: {unknown[0]!r} is none of the {len(names)} images, "
                f"which are named like {next(iter(names), 'nothing')!r}."
            )
        pairs.setdefault(frozenset(words), (words[0], words[1]))
    return list(pairs.values())
