"""HPatches' verification and retrieval tasks: official files, or drawn by the official rule."""

import csv
import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tqdm

from doap_tf.errors import InputError

SEED = 42
PAIRS, QUERIES, DISTRACTORS = 1_000_000, 10_000, 20_000

# The official generator draws more than it needs, then drops flat and repeated patches.
_QUERY_SURPLUS, _DISTRACTOR_SURPLUS = 4, 10
_LEAST_DEVIATION = 10
IMAGES = 6
_DRAWN_IMAGES = 5  # it never draws the last one
_ROWS_AT_ONCE = 100_000

_PAIR_COLUMNS = ("s1", "t1", "idx1", "s2", "t2", "idx2")
_PATCH_COLUMNS = ("s", "idx")


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs of patches, as numbers int32 [N, 3] of sequence, image (0 = reference) and index."""

    first: np.ndarray
    second: np.ndarray


@dataclasses.dataclass(frozen=True)
class VerificationTask:
    """Matching pairs, and others from the same sequence and from any."""

    positives: Pairs
    same_sequence: Pairs
    other_sequences: Pairs


@dataclasses.dataclass(frozen=True)
class RetrievalTask:
    """Reference patches, as numbers int32 [N, 2] of sequence and index."""

    queries: np.ndarray
    distractors: np.ndarray


def read_verification(
    folder: pathlib.Path, split: str, lengths: Mapping[str, int]
) -> VerificationTask:
    """Reads `verif_{pos,neg_intra,neg_inter}_split-*.csv`.

    Args:
        folder: Where the files are.
        split: The split in their names.
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
        pairs: How many pairs of each of the three kinds.
    """
    if min(lengths) < 2:
        raise InputError("verification needs sequences of at least two patches; one has fewer.")
    random = np.random.RandomState(SEED)
    sequences = random.randint(0, len(lengths), pairs)
    # A shuffle of all patches for the sake of two: slow, but it is what the official files come
    # from, and NumPy guarantees this generator's stream for ever.
    indices, images = np.empty((2, pairs, 2), np.int32)
    for row, number in enumerate(tqdm.tqdm(sequences, "drawing pairs", disable=None)):
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
        deviations: Gives the standard deviations [N] of the grey values of the reference patches
            of the sequence with a number; flat ones are not drawn.
        queries, distractors: How many of each, or fewer if there are not so many.
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
    """Numbers int32 [N, columns] of a task file, names of sequences replaced by their places."""
    if not path.is_file():
        raise InputError(
            f"task file {path} is missing: put it there, or leave out the folder of task files to "
            "have the tasks drawn by the official rule."
        )
    numbers = {name: str(number) for number, name in enumerate(lengths)}
    named = [place for place, column in enumerate(columns) if column.startswith("s")]
    tables = [np.empty((0, len(columns)), np.int32)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            if header != list(columns):
                raise InputError(
                    f"{path} must start with the columns {','.join(columns)}, "
                    f"not {','.join(header)}."
                )
            while rows := list(itertools.islice(reader, _ROWS_AT_ONCE)):
                for row in rows:
                    for place in named:
                        row[place] = numbers[row[place]]
                tables.append(np.array(rows, np.int32).reshape(-1, len(columns)))
    except InputError:
        raise
    except KeyError as error:
        raise InputError(
            f"{path} names the sequence {error}, which is not among those evaluated."
        ) from error
    except (ValueError, IndexError, OverflowError, csv.Error) as error:
        raise InputError(f"{path} holds a row that cannot be read: {error}.") from error
    table = np.concatenate(tables)
    _check_patches(path, table.reshape(-1, len(columns) // len(named)), list(lengths.items()))
    return table


def _check_patches(
    path: pathlib.Path, patches: np.ndarray, sequences: Sequence[tuple[str, int]]
) -> None:
    """Raises an InputError for a patch (sequence, image if given, index) that does not exist."""
    limits = np.array([length for _, length in sequences])[patches[:, 0]]
    bad = (patches[:, -1] < 0) | (patches[:, -1] >= limits)
    bad |= (patches[:, 1:-1] < 0).any(axis=1) | (patches[:, 1:-1] >= IMAGES).any(axis=1)
    if bad.any():
        wrong = patches[bad.argmax()]
        name, length = sequences[wrong[0]]
        raise InputError(
            f"{path} names patch {','.join(map(str, wrong[1:]))} of {name}, which has {length} "
            f"patches in {IMAGES} images."
        )
