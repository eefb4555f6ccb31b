"""Batches that a thread makes ahead of the training steps."""

import queue
import threading
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf.data import MixtureSampler, PatchGroups, Sampler

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


class Batches:
    """Endless batches of a sampler; used as a context manager, which ends the thread.

    Args:
        groups: Patches and labels.
        sampler: Chooses the rows. It runs ahead, so its position must be taken from the batches.
        with_sequences: Whether labels contain the sequence; without it, all other groups of the
            same image are distractors.
    """

    def __init__(
        self,
        groups: PatchGroups,
        sampler: Sampler | MixtureSampler,
        with_sequences: bool = True,
    ):
        self._groups = groups
        self._labels = groups.label_table.copy()
        if not with_sequences:
            self._labels[:, 1:] = -1
        self._flat = groups.patches.reshape(len(groups), -1)
        self._sampler = sampler
        self._ready: queue.Queue[Batch | BaseException] = queue.Queue(_AHEAD)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._fill, name="batches", daemon=True)

    def __enter__(self) -> "Batches":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        while not self._ready.empty():  # the thread may be waiting for room
            self._ready.get_nowait()
        self._thread.join()

    def __next__(self) -> Batch:
        batch = self._ready.get()
        if isinstance(batch, BaseException):
            raise batch
        return batch

    def _fill(self) -> None:
        try:
            while not self._stop.is_set():
                self._put(self._make())
        except BaseException as error:  # raised in the thread that waits for a batch
            self._put(error)

    def _make(self) -> Batch:
        rows = next(self._sampler)
        size = self._groups.size
        # Unlike indexing, np.take lets other threads run while it copies.
        patches = np.take(self._flat, rows, axis=0).reshape(len(rows), size, size, 1)
        # Copied to the device here, ahead of the step.
        return Batch(
            rows,
            tf.convert_to_tensor(patches),
            tf.convert_to_tensor(self._labels[rows]),
            self._sampler.state(),
        )

    def _put(self, item: Batch | BaseException) -> None:
        while not self._stop.is_set():
            try:
                return self._ready.put(item, timeout=0.2)
            except queue.Full:
                continue
