"""The base class of samplers: seeded batches of row numbers, one after another."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers.filling import draw_rows
from doap_tf.errors import InputError


class Sampler(abc.ABC):
    """Endless batches: `next(sampler)` is int32 [M], rows of `groups`.

    No row occurs twice in a batch, and the patches of a group stand together. Batch n depends only
    on the seed, on n and on `state`: a restored sampler continues as the saved one would have.

    Args:
        groups: What to sample from.
        batch_size: M.
        seed: Another seed gives other batches.
        views: Maximum number of patches per group, chosen at random each time; None for all.
    """

    def __init__(
        self, groups: PatchGroups, batch_size: int, seed: int = 0, views: int | None = None
    ):
        if batch_size < 2:
            raise InputError(f"batch_size must be at least 2, not {batch_size}.")
        if views is not None and views < 2:
            raise InputError(f"views must be at least 2, so that patches match, not {views}.")
        self.groups = groups
        self.batch_size = batch_size
        self.seed = seed
        self.views = views
        self.step = 0
        self._sizes = groups.group_sizes if views is None else groups.group_sizes.clip(max=views)
        if self._sizes.sum() < batch_size:
            raise InputError(
                f"batch_size {batch_size} is more than the {self._sizes.sum()} patches of "
                f"{groups.source} that fit into a batch: choose a smaller one."
            )
        # This many groups fill a batch whatever their sizes.
        self._enough = -(-batch_size // int(self._sizes.min()))

    def __iter__(self) -> Sampler:
        return self

    def __next__(self) -> np.ndarray:
        rng = np.random.default_rng([self.seed, 0, self.step])
        chosen, counts = self._choose(rng)
        self.step += 1
        return draw_rows(self.groups, chosen, counts, rng)

    @property
    def steps_per_epoch(self) -> int:
        """Batches that hold as many patches as there are; cut groups make it a few less."""
        return int(self._sizes.sum() // self.batch_size)

    @abc.abstractmethod
    def _choose(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns the groups of the next batch and how many patches to take of each."""

    def state(self) -> dict[str, Any]:
        """Returns the position, as numbers, strings and lists that JSON can hold."""
        return {"sampler": str(self), "step": self.step}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to a position that `state` returned."""
        if state["sampler"] != str(self):
            raise InputError(
                f"the saved position belongs to {state['sampler']}, but the sampler is {self}: "
                "resume with the data and settings of that run."
            )
        self.step = state["step"]

    def __str__(self) -> str:
        """Returns settings and data; a position can only be restored where they are equal."""
        settings = f"batch_size={self.batch_size}, seed={self.seed}, views={self.views}"
        data = f"{len(self.groups)} patches in {self.groups.group_count} groups"
        return f"{type(self).__name__}({settings}) over {data}"

    def _random_groups(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Returns `count` different groups, or all of them if fewer, in random order."""
        limit = self.groups.group_count
        return rng.choice(limit, min(count, limit), replace=False)

    def _order(self, epoch: int, count: int) -> np.ndarray:
        """Returns the random order of `count` items in an epoch."""
        return np.random.default_rng([self.seed, 1, epoch]).permutation(count)
