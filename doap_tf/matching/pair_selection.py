"""Selecting the pairs of images to match."""

import collections
import itertools
import os
import pathlib
import re
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
        for index, first in enumerate(names)
        for second in names[index + 1 : index + 1 + overlap]
    ]


def cluster_pairs(pairs: Sequence[Pair], images: int) -> list[Pair]:
    """Orders pairs so that in most stretches they are of few images, whose features stay in memory.

    Images are numbered by breadth-first search along the pairs, so that those of one place come
    together, and pairs are taken block by block of these numbers.

    Args:
        pairs: Names of images.
        images: The number of images that a stretch may have.
    """
    partners = collections.defaultdict(list)
    for first, second in pairs:
        partners[first].append(second)
        partners[second].append(first)
    numbers: dict[str, int] = {}
    for start in partners:
        queue = collections.deque([start])
        while queue:
            name = queue.popleft()
            if name not in numbers:
                numbers[name] = len(numbers)
                queue.extend(partners[name])
    block = max(1, images // 2)

    def position(pair: Pair) -> tuple[int, ...]:
        high, low = sorted((numbers[name] for name in pair), reverse=True)
        return high // block, low // block, high, low

    return sorted(pairs, key=position)


def read_pairs(path: str | os.PathLike, names: Sequence[str]) -> list[Pair]:
    """Reads a text file with one pair of names per line, as hloc writes it.

    Names may contain spaces as long as a line can be read in one way only.

    Args:
        path: The text file.
        names: The existing images.

    Returns:
        Pairs, each once, whatever the order of its names.
    """
    try:
        lines = pathlib.Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read pairs from {path}: {error}.") from error
    known = set(names)
    pairs: dict[frozenset[str], Pair] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        halves = {
            (line[: gap.start()].strip(), line[gap.end() :].strip())
            for gap in re.finditer(r"\s+", line)
        }
        readings = [pair for pair in halves if known.issuperset(pair)]
        if len(readings) > 1:
            raise InputError(
                f"{path}, line {number}: {line!r} names a pair in more than one way; rename images."
            )
        words = line.split()
        if not readings and len(words) == 2:
            unknown = next(name for name in words if name not in known)
            raise InputError(
                f"{path}, line {number}: {unknown!r} is not one of the {len(names)} images, "
                f"whose names are like {next(iter(names), '')!r}."
            )
        if not readings or readings[0][0] == readings[0][1]:
            raise InputError(
                f"{path}, line {number}: expected the names of two images, not {line!r}."
            )
        pairs.setdefault(frozenset(readings[0]), readings[0])
    if not pairs:
        raise InputError(f"{path} names no pair.")
    return list(pairs.values())
