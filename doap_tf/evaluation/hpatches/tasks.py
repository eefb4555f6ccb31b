"""HPatches' verification and retrieval tasks, read from files or drawn by the official rule."""

import csv
import dataclasses
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from doap_tf.errors import InputError
from doap_tf.progress import progress

SEED = 42
PAIRS, QUERIES, DISTRACTORS = 1_000_000, 10_000, 20_000

# The official generator draws more than it needs, then drops flat and repeated patches.
_QUERY_SURPLUS, _DISTRACTOR_SURPLUS = 4, 10
_LEAST_DEVIATION = 10
IMAGES = 6
_DRAWN_IMAGES = 5  # never the last one

_PAIR_COLUMNS = ("s1", "t1", "idx1", "s2", "t2", "idx2")
_PATCH_COLUMNS = ("s", "idx")


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of patches, each side int32 [N, 3]: sequence, image (0 is the reference), index."""

    first: np.ndarray
    second: np.ndarray


@dataclasses.dataclass(frozen=True)
class VerificationTask:
    """Matching pairs, and non-matching ones from the same sequence and from any."""

    positives: Pairs
    same_sequence: Pairs
    other_sequences: Pairs


@dataclasses.dataclass(frozen=True)
class RetrievalTask:
    """Reference patches, int32 [N, 2]: sequence and index."""

    queries: np.ndarray
    distractors: np.ndarray


def read_verification(
    folder: pathlib.Path, split: str, lengths: Mapping[str, int]
) -> VerificationTask:
    """Reads `verif_{pos,neg_intra,neg_inter}_split-*.csv`.

    Args:
        folder: Folder of the files.
        split: Split in their names.
        lengths: Number of patches of each sequence; sequences are numbered in this order.
    """

    def read(kind: str) -> Pairs:
        table = _read(folder / f"verif_{kind}_split-{split}.csv", _PAIR_COLUMNS, lengths)
        return Pairs(table[:, :3], table[:, 3:])

    return VerificationTask(read("pos"), read("neg_intra"), read("neg_inter"))


def read_retrieval(folder: pathlib.Path, split: str, lengths: Mapping[str, int]) -> RetrievalTask:
    """Reads `retr_{queries,distractors}_split-*.csv`; arguments as for `read_verification`."""
    return RetrievalTask(
        _read(folder / f"retr_queries_split-{split}.csv", _PATCH_COLUMNS, lengths),
        _read(folder / f"retr_distractors_split-{split}.csv", _PATCH_COLUMNS, lengths),
    )


def draw_verification(lengths: Sequence[int], pairs: int = PAIRS) -> VerificationTask:
    """Draws the pairs that the official generator would.

    Args:
        lengths: Number of patches of each sequence, in the order of the split.
        pairs: Number of pairs of each of the three kinds.
    """
    if min(lengths) < 2:
        raise InputError("verification needs at least two patches in every sequence.")
    random = np.random.RandomState(SEED)
    sequences = random.randint(0, len(lengths), pairs)
    # Shuffling all patches to draw two is slow, but the official files were drawn that way, and
    # NumPy keeps the stream of this generator stable.
    indices, images = np.empty((2, pairs, 2), np.int32)
    for row, number in enumerate(progress(sequences, "drawing pairs")):
        indices[row] = random.permutation(lengths[number])[:2]
    for row in range(pairs):
        images[row] = random.permutation(_DRAWN_IMAGES)[:2]
    others = random.randint(0, len(lengths), pairs)
    other_indices = np.array([random.randint(lengths[number]) for number in others])

    def patches(sequences: np.ndarray, side: int, indices: np.ndarray) -> np.ndarray:
        return np.stack([sequences, images[:, side], indices], axis=1).astype(np.int32)

    first = patches(sequences, 0, indices[:, 0])
    return VerificationTask(
        Pairs(first, patches(sequences, 1, indices[:, 0])),
        Pairs(first, patches(sequences, 1, indices[:, 1])),
        Pairs(first, patches(others, 1, other_indices)),
    )


def draw_retrieval(
    lengths: Sequence[int],
    deviations: Callable[[int], np.ndarray],
    queries: int = QUERIES,
    distractors: int = DISTRACTORS,
) -> RetrievalTask:
    """Draws the reference patches that the official generator would.

    Args:
        lengths: Number of patches of each sequence, in the order of the split.
        deviations: Returns the standard deviations [N] of the grey values of the reference patches
            of a sequence by its number; flat patches are not drawn.
        queries, distractors: Maximum number of each.
    """
    random = np.random.RandomState(SEED)
    textured = [deviations(number) > _LEAST_DEVIATION for number in range(len(lengths))]

    def draw(count: int) -> np.ndarray:
        sequences = random.randint(0, len(lengths), count)
        indices = [random.randint(lengths[number]) for number in sequences]
        drawn = dict.fromkeys(
            (number, index)
            for number, index in zip(sequences.tolist(), indices, strict=True)
            if textured[number][index]
        )
        return np.array(list(drawn), np.int32).reshape(-1, 2)

    drawn_queries = draw(queries * _QUERY_SURPLUS)[:queries]
    pool = draw(distractors * _DISTRACTOR_SURPLUS)
    taken = set(map(tuple, drawn_queries.tolist()))
    free = [tuple(patch) not in taken for patch in pool.tolist()]
    return RetrievalTask(drawn_queries, pool[free][:distractors])


def _read(path: pathlib.Path, columns: Sequence[str], lengths: Mapping[str, int]) -> np.ndarray:
    """Reads a task file as int32 [N, columns], with sequences by number."""
    if not path.is_file():
        raise InputError(
            f"task file {path} is missing; without a folder of task files, tasks are drawn by the "
            "official rule."
        )
    numbers = {name: number for number, name in enumerate(lengths)}
    parsers = [numbers.__getitem__ if name.startswith("s") else int for name in columns]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            rows = reader if header == list(columns) else ()
            cells = (parse(cell) for row in rows for parse, cell in zip(parsers, row, strict=True))
            table = np.fromiter(cells, np.int32).reshape(-1, len(columns))
    except KeyError as error:
        raise InputError(
            f"{path} names the sequence {error}, which is not evaluated: is it of another split?"
        ) from error
    except (ValueError, OverflowError, csv.Error) as error:
        raise InputError(f"{path} holds a row that cannot be read: {error}.") from error
    if header != list(columns):
        raise InputError(f"{path} has the columns {','.join(header)}, not {','.join(columns)}.")
    # One row per patch: sequence, image in a list of pairs, index.
    patches = table.reshape(-1, 3 if "t1" in columns else 2)
    limits = np.array(list(lengths.values()))[patches[:, 0]]
    bad = (patches < 0).any(axis=1) | (patches[:, -1] >= limits)
    bad |= (patches[:, 1:-1] >= IMAGES).any(axis=1)
    if bad.any():
        sequence, *patch = patches[bad.argmax()].tolist()
        name, length = list(lengths.items())[sequence]
        raise InputError(
            f"{path} names patch {','.join(map(str, patch))} of {name}, which has {length} patches "
            f"in {IMAGES} images."
        )
    return table
