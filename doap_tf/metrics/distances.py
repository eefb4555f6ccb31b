"""Exact distances and nearest neighbours of descriptors, in NumPy and in bounded memory.

The differentiable counterpart is `doap_tf.losses.distances`.
"""

from collections.abc import Iterator

import numpy as np

from doap_tf.errors import InputError
from doap_tf.parallel import parallel_map

# OpenCV's values, repeated here because validation during training must not need OpenCV.
NORM_L2 = 4
NORM_HAMMING = 6

# The allocator reuses blocks of this size; larger ones are not faster.
_BLOCK_MB = 32

_GROUP_ROWS = 128  # whose column minima are found at once


def descriptor_size(norm: int, dimension: int) -> str:
    """Says what a descriptor consists of, such as `128 floats`."""
    return f"{dimension} {'bits' if norm == NORM_HAMMING else 'floats'}"


def checked_descriptors(descriptors: np.ndarray, norm: int, name: str) -> np.ndarray:
    """Returns `descriptors` as an array, or raises an InputError that starts with `name`.

    Args:
        descriptors: [N, D] for NORM_L2, packed bits [N, bits / 8] for NORM_HAMMING.
        norm: NORM_L2 or NORM_HAMMING.
        name: Name of the array in errors.
    """
    descriptors = np.asarray(descriptors)
    if norm not in _SIDES:
        raise InputError(f"norm must be {NORM_L2} (L2) or {NORM_HAMMING} (Hamming), not {norm!r}.")
    if descriptors.ndim != 2 or descriptors.shape[1] == 0:
        raise InputError(f"{name} must have the shape [N, D], not {list(descriptors.shape)}.")
    if norm == NORM_HAMMING:
        if descriptors.dtype != np.uint8:
            raise InputError(
                f"{name} must be packed bits (uint8) for the Hamming distance, "
                f"not {descriptors.dtype}."
            )
    elif not np.isfinite(descriptors).all():
        row = int(np.argmin(np.isfinite(descriptors).all(axis=1)))
        raise InputError(f"{name} must be finite; row {row} holds NaN or infinity.")
    return descriptors


def distance_matrix(queries: np.ndarray, database: np.ndarray, norm: int) -> np.ndarray:
    """Returns the distances of all queries to all descriptors of a database.

    Args:
        queries: [Q, D], or packed bits [Q, bits / 8].
        database: [N, D], or packed bits [N, bits / 8].
        norm: NORM_L2 or NORM_HAMMING.

    Returns:
        [Q, N], float32 for L2 and uint16 for Hamming. Equal pairs of rows have equal distances,
        independent of how queries and database are split into blocks.
    """
    queries, database = checked_sides(queries, database, norm)
    side = _SIDES[norm](database)
    return side.distance(side.compare(queries))


def paired_distances(
    first: np.ndarray, second: np.ndarray, norm: int, memory_mb: float = 512
) -> np.ndarray:
    """Returns the distance of each row of `first` to the same row of `second`.

    Args:
        first: [N, D], or packed bits [N, bits / 8].
        second: The same shape.
        norm: NORM_L2 or NORM_HAMMING.
        memory_mb: Limit for temporary arrays.

    Returns:
        [N], float32 for L2 and uint16 for Hamming.
    """
    first, second = checked_sides(first, second, norm)
    if len(first) != len(second):
        raise InputError(f"paired sides must be equally long, not {len(first)} and {len(second)}.")
    result = np.empty(len(first), np.float32 if norm == NORM_L2 else np.uint16)
    for rows in blocks(len(first), 20 * first.shape[1], memory_mb):
        if norm == NORM_L2:
            difference = first[rows].astype(np.float64) - second[rows]
            squares = np.einsum("nd,nd->n", difference, difference)
            result[rows] = np.sqrt(squares.astype(np.float32))
        else:
            result[rows] = np.bitwise_count(first[rows] ^ second[rows]).sum(axis=1)
    return result


def nearest(
    queries: np.ndarray, database: np.ndarray, norm: int, k: int = 1, memory_mb: float = 512
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `k` nearest neighbours of every query; ties go to the lowest index.

    Args:
        queries: [Q, D], or packed bits [Q, bits / 8].
        database: [N, D], or packed bits [N, bits / 8].
        norm: NORM_L2 or NORM_HAMMING.
        k: Number of neighbours; small.
        memory_mb: Limit for temporary arrays.

    Returns:
        Indices int64 [Q, k] and distances float32 [Q, k], nearest first. Beyond the size of the
        database, indices are −1 and distances infinite.
    """
    return _search(queries, database, norm, k, memory_mb)[:2]


def nearest_both_ways(
    queries: np.ndarray, database: np.ndarray, norm: int, k: int = 1, memory_mb: float = 512
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what `nearest` does and, from the same distances, the way back.

    Args:
        queries, database, norm, k, memory_mb: As for `nearest`.

    Returns:
        Indices int64 [Q, k], distances float32 [Q, k], and the nearest query of every descriptor of
        the database, int64 [N]; −1 without queries.
    """
    back = np.full(len(database), -1, np.int64)
    return *_search(queries, database, norm, k, memory_mb, back), back


def _search(
    queries: np.ndarray,
    database: np.ndarray,
    norm: int,
    k: int,
    memory_mb: float,
    back: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `nearest` does; fills `back`, int64 [N] of −1, with the nearest queries."""
    queries, database = checked_sides(queries, database, norm)
    if k < 1:
        raise InputError(f"k must be at least 1, not {k!r}.")
    indices = np.full((len(queries), k), -1, np.int64)
    found = np.full((len(queries), k), np.inf, np.float32)
    for columns in blocks(len(database), 32 * (database.shape[1] + 2), memory_mb):
        side = _SIDES[norm](database[columns])
        least = np.full(side.size, np.inf, np.float32)
        block_mb = min(memory_mb / 2, _BLOCK_MB)
        for rows in blocks(len(queries), side.bytes_each * side.size, block_mb):
            compared = side.compare(queries[rows])
            if back is not None:
                note_nearest_rows(compared, rows.start, least, back[columns])
            closest, values = smallest_per_row(compared, k)
            del compared  # before the next is made
            # Earlier blocks come first and the sort is stable: ties keep the lowest index.
            all_indices = np.hstack([indices[rows], closest + columns.start])
            all_values = np.hstack([found[rows], values])
            order = np.argsort(all_values, axis=1, kind="stable")[:, :k]
            indices[rows] = np.take_along_axis(all_indices, order, axis=1)
            found[rows] = np.take_along_axis(all_values, order, axis=1)
    return indices, _SIDES[norm].distance(found)


def blocks(count: int, bytes_each: int, memory_mb: float) -> Iterator[slice]:
    """Splits `count` items of `bytes_each` into slices of at most `memory_mb`, or of one item."""
    step = max(1, int(memory_mb * 2**20 / bytes_each))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def checked_sides(
    queries: np.ndarray, database: np.ndarray, norm: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as arrays, or raises an InputError: see `checked_descriptors`."""
    queries = checked_descriptors(queries, norm, "queries")
    database = checked_descriptors(database, norm, "database")
    if queries.shape[1] != database.shape[1]:
        raise InputError(
            f"descriptors of two widths cannot be compared: {queries.shape[1]} and "
            f"{database.shape[1]}."
        )
    return queries, database


def smallest_per_row(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns columns and values [Q, min(k, N)] of the smallest per row; overwrites `values`."""
    rows = np.arange(len(values))
    largest = np.inf if values.dtype.kind == "f" else np.iinfo(values.dtype).max
    columns, smallest = [], []
    for _ in range(min(k, values.shape[1])):
        columns.append(values.argmin(axis=1))
        smallest.append(values[rows, columns[-1]])
        values[rows, columns[-1]] = largest
    return np.stack(columns, axis=1), np.stack(smallest, axis=1)


def note_nearest_rows(
    values: np.ndarray, start: int, least: np.ndarray, nearest_rows: np.ndarray
) -> None:
    """Updates the least value and its row for every column of `values`, whose rows are `start` on.

    To find minima is far cheaper than to find where they are, and after the first few groups of
    rows hardly a column still finds a smaller one.
    """
    for top in range(0, len(values), _GROUP_ROWS):
        group = values[top : top + _GROUP_ROWS]
        smallest = group.min(axis=0)
        closer = np.flatnonzero(smallest < least)
        least[closer] = smallest[closer]
        nearest_rows[closer] = start + top + group[:, closer].argmin(axis=0)


class _EuclideanSide:
    """A database prepared for squared L2 distances by one matrix product.

    The product is computed in float64 and rounded once to float32, because |q|² − 2qd + |d|²
    cancels: in float32 the order of near neighbours, and of equal ones, would be random.
    """

    bytes_each = 16  # per distance while comparing: float64, float32 and a mask

    def __init__(self, database: np.ndarray):
        self.size, dimension = database.shape
        self._columns = np.ones((dimension + 2, self.size))
        self._columns[:dimension] = database.T
        self._columns[dimension + 1] = np.square(self._columns[:dimension]).sum(axis=0)

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns squared distances float32 [Q, N] of queries [Q, D]."""
        dimension = queries.shape[1]
        rows = np.ones((len(queries), dimension + 2))
        rows[:, :dimension] = queries
        rows[:, dimension] = np.square(rows[:, :dimension]).sum(axis=1)
        rows[:, :dimension] *= -2
        squares = rows @ self._columns
        largest = rows[:, dimension].max(initial=0) + self._columns[-1].max(initial=0)
        # Below the rounding error of the sum, rows count as identical.
        squares[squares < 4 * dimension * np.finfo(np.float64).eps * largest] = 0
        return squares.astype(np.float32)

    @staticmethod
    def distance(compared: np.ndarray) -> np.ndarray:
        return np.sqrt(compared, out=compared)


class _HammingSide:
    """A database of packed bits prepared for Hamming distances by XOR and popcount on words."""

    bytes_each = 2
    # A tile of words stays in the processor's cache while it is combined and counted; a thread
    # works on several rows of tiles and reuses its buffers.
    _TILE_ROWS, _TILE_COLUMNS, _THREAD_ROWS = 32, 4096, 128

    def __init__(self, database: np.ndarray):
        self.size = len(database)
        self._words = np.ascontiguousarray(self._as_words(database).T)

    @staticmethod
    def _as_words(packed: np.ndarray) -> np.ndarray:
        """Returns uint64 [N, ceil(bytes / 8)] of uint8 [N, bytes]; padding bits are zero."""
        padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
        padded[:, : packed.shape[1]] = packed
        return padded.view(np.uint64)

    def compare(self, queries: np.ndarray) -> np.ndarray:
        """Returns distances uint16 [Q, N] of packed queries [Q, bits / 8]."""
        words = self._as_words(queries)
        result = np.zeros((len(queries), self.size), np.uint16)

        def fill(start: int) -> None:
            # In this thread only: with NumPy's 8,192 it copies operands before it combines them.
            np.setbufsize(1024)
            differing = np.empty((self._TILE_ROWS, self._TILE_COLUMNS), np.uint64)
            counts = np.empty(differing.shape, np.uint8)
            stop = min(start + self._THREAD_ROWS, len(queries))
            for top in range(start, stop, self._TILE_ROWS):
                rows = slice(top, min(top + self._TILE_ROWS, stop))
                for left in range(0, self.size, self._TILE_COLUMNS):
                    columns = slice(left, left + self._TILE_COLUMNS)
                    tile = result[rows, columns]
                    place = tuple(map(slice, tile.shape))
                    for query, database in zip(words[rows].T, self._words[:, columns], strict=True):
                        np.bitwise_xor(query[:, np.newaxis], database, out=differing[place])
                        np.bitwise_count(differing[place], out=counts[place])
                        tile += counts[place]

        parallel_map(fill, range(0, len(queries), self._THREAD_ROWS))
        return result

    @staticmethod
    def distance(compared: np.ndarray) -> np.ndarray:
        return compared


_SIDES: dict[int, type[_EuclideanSide] | type[_HammingSide]] = {
    NORM_L2: _EuclideanSide,
    NORM_HAMMING: _HammingSide,
}
