"""Selecting the pairs of images to match."""

import itertools
import os
import pathlib
from collections.abc import Sequence

from doap_tf.errors import InputError

Pair = tuple[str, str]


def exhaustive_pairs(names: Sequence[str]) -> list[Pair]:
    """Returns all pairs of images."""
    return list(itertools.combinations(names, 2))


def sequential_pairs(names: Sequence[str], overlap: int) -> list[Pair]:
    """Returns pairs of every image with the `overlap` images that follow it."""
    if overlap < 1:
        raise InputError(f"overlap must be at least 1, not {overlap}.")
    return [
        (first, second)
        for place, first in enumerate(names)
        for second in names[place + 1 : place + 1 + overlap]
    ]


def read_pairs(path: str | os.PathLike, names: Sequence[str]) -> list[Pair]:
    """Reads a text file with one pair of names per line, as hloc writes it.

    Args:
        path: The text file.
        names: The existing images.

    Returns:
        Pairs, each once, whatever the order of its names.
    """
    try:
        lines = pathlib.Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read pairs from {path}: {error}.") from error
    known = set(names)
    pairs: dict[frozenset[str], Pair] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = line.split()
        if len(words) != 2 or words[0] == words[1]:
            raise InputError(f"{path}, line {number}: expected two different names, not {line!r}.")
        unknown = [name for name in words if name not in known]
        if unknown:
            raise InputError(
                f"{path}, line {number}: {unknown[0]!r} is not one of the {len(names)} images, "
                f"whose names are like {next(iter(names), '')!r}."
            )
        pairs.setdefault(frozenset(words), (words[0], words[1]))
    return list(pairs.values())
