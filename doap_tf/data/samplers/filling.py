"""Filling a batch with exactly the number of patches it holds, from a queue of groups."""

import numpy as np

from doap_tf.data.patch_groups import PatchGroups


def fill(sizes: np.ndarray, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Takes groups from the front of a queue until the batch is full.

    The last group is cut to fit. If that would leave a single patch of it, which has no positive,
    a group from further back replaces the last one or two, in this order of preference: a group
    that fills the batch exactly; a larger one, cut. If there is none, the last two are both cut.
    The single patch remains only where all groups further back are pairs.

    Args:
        sizes: int [n], number of patches of each group in the queue, enough for the batch.
        batch_size: Number of patches in the batch, at least 2.

    Returns:
        Places in the queue and how many patches to take from each, both int [k].
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
        index = int(np.argmax(fitting))
        if fitting[index]:
            return np.append(places[:end], last + index), np.append(counts[:end], wanted)
    if room > 3:
        counts[last - 1 :] = room - 2, 2
    return places, counts


def draw_rows(
    groups: PatchGroups, chosen: np.ndarray, counts: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws `counts[i]` random patches of each group `chosen[i]`; returns their rows, int32 [M]."""
    starts = np.cumsum(counts) - counts
    offsets = np.arange(counts.sum()) - np.repeat(starts, counts)
    sizes = groups.group_sizes[chosen]
    partial = counts < sizes
    for count in np.flatnonzero(np.bincount(counts[partial])).tolist():
        these = np.flatnonzero(partial & (counts == count))
        offsets[starts[these, None] + np.arange(count)] = _subsets(sizes[these], count, rng)
    return groups.rows_by_group[np.repeat(groups.group_starts[chosen], counts) + offsets]


def _subsets(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws `count` different numbers below each of `sizes`, all subsets equally likely.

    Floyd's method: the i-th draw is from one number more than the draw before, and a number drawn
    already is replaced by the newest one.

    Returns:
        int [n, count]
    """
    subsets = np.full([len(sizes), count], -1)
    for i in range(count):
        newest = sizes - count + i
        drawn = rng.integers(0, newest + 1)
        repeated = (subsets[:, :i] == drawn[:, None]).any(axis=1)
        subsets[:, i] = np.where(repeated, newest, drawn)
    return subsets
