"""The sampler of a run, by name."""

from collections.abc import Sequence

from doap_tf.data import (
    GroupSampler,
    MixtureSampler,
    PatchGroups,
    RomeSampler,
    SameSequenceSampler,
    Sampler,
    SequencePairSampler,
    batch_shares,
)
from doap_tf.errors import InputError, check_choice

_SAMPLERS = {
    "groups": GroupSampler,
    "same_sequence": SameSequenceSampler,
    "sequence_pairs": SequencePairSampler,
    "rome": RomeSampler,
}
SAMPLERS = tuple(_SAMPLERS)


def make_sampler(
    name: str,
    parts: Sequence[PatchGroups],
    weights: Sequence[float],
    batch_size: int,
    seed: int,
    views: int | None,
    sequence_share: float | None = None,
) -> Sampler | MixtureSampler:
    """Returns a sampler over one dataset, or over the concatenation of several.

    Args:
        name: One of `SAMPLERS`; of several datasets, those without sequences are sampled by
            groups.
        parts: The datasets.
        weights: Share of each dataset in a batch; equal shares if empty.
        batch_size: M.
        seed: Of the order of batches.
        views: Maximum number of patches per group; None for all.
        sequence_share: `share` of a `SameSequenceSampler`; None for its default.
    """
    check_choice("sampler", name, SAMPLERS)
    options: dict[str, float] = {}
    if sequence_share is not None:
        if name != "same_sequence":
            raise InputError(f"sequence_share requires the sampler same_sequence, not {name}.")
        options["share"] = sequence_share
    weights = list(weights) or [1.0] * len(parts)
    if len(weights) != len(parts):
        raise InputError(f"{len(weights)} weights are given for {len(parts)} datasets.")
    if len(parts) == 1:
        return _SAMPLERS[name](parts[0], batch_size, seed, views, **options)
    samplers = []
    for part, size in zip(parts, batch_shares(batch_size, weights), strict=True):
        if part.groups_by_sequence:
            samplers.append(_SAMPLERS[name](part, size, seed, views, **options))
        else:
            samplers.append(GroupSampler(part, size, seed, views))
    return MixtureSampler(samplers)
