"""Batches that a thread makes ahead of the training steps."""

import contextlib
import itertools
from collections.abc import Generator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.data import MixtureSampler, PatchGroups, Sampler
from doap_tf.parallel import map_ahead

_AHEAD = 8


class Batch(NamedTuple):
    """The input of a step, and its origin.

    Attributes:
        rows: Rows of the patch groups, int32 [M].
        patches: uint8 [M, S, S, 1].
        labels: int32 [M, 3].
        sampler_state: Position of the sampler after this batch.
    """

    rows: np.ndarray
    patches: tf.Tensor
    labels: tf.Tensor
    sampler_state: dict[str, Any]


def make_batches(
    groups: PatchGroups, sampler: Sampler | MixtureSampler, with_sequences: bool = True
) -> contextlib.closing[Generator[Batch]]:
    """Returns endless batches of a sampler; the context ends the thread that makes them.

    Args:
        groups: Patches and labels.
        sampler: Chooses the rows. It runs ahead, so its position must be taken from the batches.
        with_sequences: Whether labels contain the sequence; without it, all other groups of the
            same image are distractors.
    """
    table = groups.label_table.copy()
    if not with_sequences:
        table[:, 1:] = -1
    flat = groups.patches.reshape(len(groups), -1)

    def make(_: int) -> Batch:
        rows = next(sampler)
        # Unlike indexing, np.take lets other threads run while it copies.
        patches = np.take(flat, rows, axis=0).reshape(len(rows), groups.size, groups.size, 1)
        # Copied to the device here, ahead of the step.
        return Batch(
            rows,
            tf.convert_to_tensor(patches),
            tf.convert_to_tensor(table[rows]),
            sampler.state(),
        )

    return contextlib.closing(map_ahead(make, itertools.count(), threads=1, ahead=_AHEAD))
