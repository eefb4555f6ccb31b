"""Batches with many distractors from the same images."""

import numpy as np

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers.filling import fill
from doap_tf.data.samplers.sampler import Sampler
from doap_tf.errors import InputError


class SameSequenceSampler(Sampler):
    """A share of a batch comes from a few random sequences, the rest from random groups.

    Each of `sequences_per_batch` sequences contributes random groups up to its part of share · M
    patches, or all its groups where it has fewer. Random other groups of all sequences fill the
    batch; the last one is cut as `filling.fill` says. A group occurs once in a batch.

    Args:
        sequences_per_batch: Number of sequences that the share comes from; None for four, or all
            where there are fewer.
        share: Share of the patches, above 0 and at most 1.
        Others: those of `Sampler`.
    """

    def __init__(
        self,
        groups: PatchGroups,
        batch_size: int,
        seed: int = 0,
        views: int | None = None,
        sequences_per_batch: int | None = None,
        share: float = 0.5,
    ):
        super().__init__(groups, batch_size, seed, views)
        if not 0 < share <= 1:
            raise InputError(f"the share of a batch must be in (0, 1], not {share}.")
        count = len(groups.groups_by_sequence)
        if not count:
            raise InputError(
                f"{groups.source} has no sequences, which the sampler same_sequence requires: "
                "choose the sampler groups."
            )
        if sequences_per_batch is None:
            sequences_per_batch = min(4, count)
        if not 1 <= sequences_per_batch <= count:
            raise InputError(
                f"sequences_per_batch is {sequences_per_batch}, but {groups.source} has {count} "
                "sequences."
            )
        self.sequences_per_batch = sequences_per_batch
        self.share = share

    def _choose(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        members = self.groups.groups_by_sequence
        sequences = rng.choice(list(members), self.sequences_per_batch, replace=False)
        quota = int(self.share * self.batch_size / self.sequences_per_batch)
        together = np.concatenate([self._some_of(members[s], quota, rng) for s in sequences])
        others = self._random_groups(self._enough + len(together), rng)
        is_other = np.ones(self.groups.group_count, bool)
        is_other[together] = False
        queue = np.append(together, others[is_other[others]])
        places, counts = fill(self._sizes[queue], self.batch_size)
        return queue[places], counts

    def _some_of(self, members: np.ndarray, quota: int, rng: np.random.Generator) -> np.ndarray:
        members = rng.permutation(members)
        total = np.cumsum(self._sizes[members])
        return members[: np.searchsorted(total, quota, side="right")]

    def __str__(self) -> str:
        share = f"{self.share} of a batch from {self.sequences_per_batch} sequences"
        return f"{super().__str__()}, {share}"
