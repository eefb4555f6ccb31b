"""Batches that start with each group in turn, for datasets as small as RomePatches."""

import numpy as np

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers.filling import fill
from doap_tf.data.samplers.sampler import Sampler
from doap_tf.errors import InputError


class RomeSampler(Sampler):
    """The k-th batch of an epoch starts with the k-th group; random other groups follow.

    An epoch has as many batches as there are groups: 1,000 for RomePatches. The last group of a
    batch is cut as `filling.fill` says.

    Args: those of `Sampler`; the largest group must leave room for two patches.
    """

    def __init__(
        self, groups: PatchGroups, batch_size: int, seed: int = 0, views: int | None = None
    ):
        super().__init__(groups, batch_size, seed, views)
        if batch_size < self._sizes.max() + 2:
            raise InputError(
                f"batch_size must be at least {self._sizes.max() + 2}, two more than the largest "
                f"group of {groups.source}, not {batch_size}."
            )

    @property
    def steps_per_epoch(self) -> int:
        """The number of groups."""
        return self.groups.group_count

    def _choose(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        first = self.step % self.groups.group_count
        others = self._random_groups(self._enough + 1, rng)
        others = others[others != first]
        room = self.batch_size - self._sizes[first]
        places, counts = fill(self._sizes[others], room)
        return np.append(first, others[places]), np.append(self._sizes[first], counts)
