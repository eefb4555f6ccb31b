"""Batches with a fixed share of each of several datasets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from doap_tf.data.samplers.sampler import Sampler
from doap_tf.errors import InputError


class MixtureSampler:
    """A batch is the batches of all samplers, one after the other.

    Rows are those of `PatchGroups.concatenate` of the samplers' groups, in this order.

    Args:
        samplers: One per dataset; `batch_shares` returns their batch sizes.

    Example:
        >>> parts = [liberty, photos]
        >>> shares = batch_shares(1024, weights=[3, 1])
        >>> mixture = MixtureSampler([GroupSampler(p, n) for p, n in zip(parts, shares)])
        >>> groups = PatchGroups.concatenate(parts)
        >>> labels = groups.labels(next(mixture))
    """

    def __init__(self, samplers: Sequence[Sampler]):
        self.samplers = list(samplers)
        self.batch_size = sum(sampler.batch_size for sampler in self.samplers)
        lengths = [len(sampler.groups) for sampler in self.samplers]
        self._first_rows = (np.cumsum(lengths) - lengths).astype(np.int32)

    def __iter__(self) -> MixtureSampler:
        return self

    def __next__(self) -> np.ndarray:
        return np.concatenate(
            [next(s) + first for s, first in zip(self.samplers, self._first_rows, strict=True)]
        )

    def __str__(self) -> str:
        return " + ".join(map(str, self.samplers))

    @property
    def step(self) -> int:
        """Number of batches so far."""
        return self.samplers[0].step

    @property
    def steps_per_epoch(self) -> int:
        """Batches after which every dataset has had at least one epoch."""
        return max(sampler.steps_per_epoch for sampler in self.samplers)

    def state(self) -> dict[str, Any]:
        """Returns the position, as numbers, strings and lists that JSON can hold."""
        return {"samplers": [sampler.state() for sampler in self.samplers]}

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to a position that `state` returned."""
        if len(state.get("samplers", ())) != len(self.samplers):
            raise InputError(
                f"the saved position is not that of a mixture of {len(self.samplers)} datasets: "
                "resume with the data and settings of that run."
            )
        for sampler, part in zip(self.samplers, state["samplers"], strict=True):
            sampler.restore(part)


def batch_shares(batch_size: int, weights: Sequence[float]) -> list[int]:
    """Splits a batch into whole numbers as close as possible to the proportions of weights."""
    if not weights or min(weights) <= 0:
        raise InputError(f"weights must be positive, not {list(weights)}.")
    exact = batch_size * np.asarray(weights, float) / sum(weights)
    shares = np.floor(exact).astype(int)
    rest = batch_size - shares.sum()
    shares[np.argsort(shares - exact, kind="stable")[:rest]] += 1
    if shares.min() < 2:
        raise InputError(
            f"batch_size {batch_size} is too small for the weights {list(weights)}: "
            "every dataset needs at least two patches."
        )
    return shares.tolist()
