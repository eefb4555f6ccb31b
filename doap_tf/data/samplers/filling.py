"""Filling a batch with exactly as many patches as it wants, from a line of groups."""

import numpy as np

from doap_tf.data.patch_groups import PatchGroups


def fill(sizes: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Takes groups from the front of a line until the batch is full.

    The last group is cut to fit. If that would leave a single patch of it, which had no positive,
    a group from further back replaces the last one or two, in this order of preference: a group
    that ends the batch whole; a larger one, cut. If there is none, the last two are both cut.
    The lone patch stays only where all groups further back are pairs.

    Args:
        sizes: int [n], how many patches each group in line would give, enough for the batch.
        batch_size: How many patches are wanted, at least 2.

    Returns:
        Places in the line and how many patches to take from each, both int [k].
    """
    total = np.cumsum(sizes)
    last = int(np.searchsorted(total, batch_size))
    places = np.arange(last + 1)
    counts = np.array(sizes[: last + 1])
    counts[last] += batch_size - total[last]
    if counts[last] > 1 or sizes[last] == 1:
        return places, counts

    further = sizes[last:]
    room = counts[last - 1] + 1  # without the last but one
    for end, wanted, fitting in (
        (last - 1, room, further == room),
        (last, 1, further == 1),
        (last - 1, room, further > room),
    ):
        found = int(np.argmax(fitting))
        if fitting[found]:
            return np.append(places[:end], last + found), np.append(counts[:end], wanted)
    if room > 3:
        counts[last - 1 :] = room - 2, 2
    return places, counts


def draw_rows(
    groups: PatchGroups, chosen: np.ndarray, counts: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Rows of `counts[i]` random patches of group `chosen[i]`, group after group, int32 [M]."""
    starts = np.cumsum(counts) - counts
    offsets = np.arange(counts.sum()) - np.repeat(starts, counts)
    sizes = groups.group_sizes[chosen]
    partial = counts < sizes
    for count in np.flatnonzero(np.bincount(counts[partial])).tolist():
        these = np.flatnonzero(partial & (counts == count))
        offsets[starts[these, None] + np.arange(count)] = _subsets(sizes[these], count, rng)
    return groups.rows_by_group[np.repeat(groups.group_starts[chosen], counts) + offsets]


def _subsets(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` different numbers below each of `sizes`, all subsets equally likely, [n, count].

    Floyd's method: the i-th draw is from one number more than the draw before, and a number drawn
    already gives way to the new one.
    """
    subsets = np.full([len(sizes), count], -1)
    for i in range(count):
        newest = sizes - count + i
        drawn = rng.integers(0, newest + 1)
        repeated = (subsets[:, :i] == drawn[:, None]).any(axis=1)
        subsets[:, i] = np.where(repeated, newest, drawn)
    return subsets
