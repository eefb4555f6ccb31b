"""Batches from two sequences, for label mining."""

import numpy as np

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers.filling import fill
from doap_tf.data.samplers.sampler import Sampler
from doap_tf.errors import InputError


class SequencePairSampler(Sampler):
    """A batch holds random groups of two sequences, M / 2 patches of each.

    These are equally many groups of each where the groups are of one size, as in HPatches. The
    last group of either half is cut as `filling.fill` says. An epoch contains all n (n − 1) / 2
    pairs of sequences once, in random order.

    Args: those of `Sampler`; every sequence must have M / 2 patches.
    """

    def __init__(
        self, groups: PatchGroups, batch_size: int, seed: int = 0, views: int | None = None
    ):
        super().__init__(groups, batch_size, seed, views)
        self._members = groups.groups_by_sequence
        if len(self._members) < 2:
            raise InputError(
                f"{groups.source} has {len(self._members)} sequences: pairs require at least two."
            )
        if batch_size % 2 or batch_size < 4:
            raise InputError(f"batch_size must be even and at least 4, not {batch_size}.")
        patches = {s: int(self._sizes[m].sum()) for s, m in self._members.items()}
        smallest = min(patches, key=patches.__getitem__)
        if patches[smallest] < batch_size // 2:
            raise InputError(
                f"batch_size {batch_size} requires {batch_size // 2} patches per sequence, but "
                f"{groups.sequence_names[smallest]!r} has only {patches[smallest]}: "
                f"choose at most {2 * patches[smallest]}."
            )
        self._firsts, self._seconds = np.triu_indices(len(self._members), 1)
        self._epoch = -1
        self._pairs = np.empty(0, int)

    @property
    def steps_per_epoch(self) -> int:
        """The number of pairs."""
        return len(self._firsts)

    def _choose(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        epoch, place = divmod(self.step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._pairs = epoch, self._order(epoch, self.steps_per_epoch)
        pair = self._pairs[place]
        sequences = list(self._members)
        halves = []
        for sequence in (sequences[self._firsts[pair]], sequences[self._seconds[pair]]):
            queue = rng.permutation(self._members[sequence])
            places, counts = fill(self._sizes[queue], self.batch_size // 2)
            halves.append((queue[places], counts))
        (first, first_counts), (second, second_counts) = halves
        return np.append(first, second), np.append(first_counts, second_counts)
