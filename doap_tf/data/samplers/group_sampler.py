"""Batches of whole groups, or of a few views of each, in epochs."""

from typing import Any

import numpy as np

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers.filling import fill
from doap_tf.data.samplers.sampler import Sampler


class GroupSampler(Sampler):
    """A batch holds the next groups of a random order, whole or `views` patches of each.

    An epoch contains all groups once. Its last batch is completed from the next epoch, with groups
    that are not in it already. Only the last group of a batch is cut so that M is exact;
    `filling.fill` says how a single patch of a group is avoided. Groups that it defers come first
    in the next batch.

    Args: those of `Sampler`.
    """

    def __init__(
        self, groups: PatchGroups, batch_size: int, seed: int = 0, views: int | None = None
    ):
        super().__init__(groups, batch_size, seed, views)
        self._start(epoch=0)

    def _start(self, epoch: int) -> None:
        # The queue of groups from the start of an epoch, as long as batches have needed so far.
        self._epoch = epoch
        self._queue = self._order(epoch, self.groups.group_count)
        self._taken = np.zeros(len(self._queue), bool)
        self._place = 0

    def _lengthen(self, length: int) -> None:
        count = self.groups.group_count
        while len(self._queue) < length:
            epoch = self._epoch + len(self._queue) // count
            self._queue = np.append(self._queue, self._order(epoch, count))
            self._taken = np.append(self._taken, np.zeros(count, bool))

    def _choose(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        end = self._place + self._enough
        ahead = self._waiting(end)
        while self._sizes[self._queue[ahead]].sum() < self.batch_size:
            end += self._enough  # some were taken already, or are in the queue twice
            ahead = self._waiting(end)
        places, counts = fill(self._sizes[self._queue[ahead]], self.batch_size)
        chosen = self._queue[ahead[places]]
        self._taken[ahead[places]] = True
        self._advance()
        return chosen, counts

    def _waiting(self, end: int) -> np.ndarray:
        """Returns the places before `end` of different groups that no batch has taken."""
        self._lengthen(end)
        ahead = self._place + np.flatnonzero(~self._taken[self._place : end])
        if end > self.groups.group_count:  # the same group may be in the queue for two epochs
            ahead = ahead[np.sort(np.unique(self._queue[ahead], return_index=True)[1])]
        return ahead

    def _advance(self) -> None:
        """Goes to the first group that waits, and drops the epochs before it."""
        if self._taken[self._place :].all():
            self._lengthen(len(self._queue) + 1)
        self._place += int(np.argmin(self._taken[self._place :]))
        epochs, self._place = divmod(self._place, self.groups.group_count)
        self._epoch += epochs
        self._queue = self._queue[epochs * self.groups.group_count :]
        self._taken = self._taken[epochs * self.groups.group_count :]

    def state(self) -> dict[str, Any]:
        ahead = self._place + np.flatnonzero(self._taken[self._place :])
        return super().state() | {
            "epoch": self._epoch,
            "place": self._place,
            "taken_ahead": ahead.tolist(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._start(state["epoch"])
        self._place = state["place"]
        self._lengthen(max(state["taken_ahead"], default=0) + 1)
        self._taken[: self._place] = True
        self._taken[state["taken_ahead"]] = True
