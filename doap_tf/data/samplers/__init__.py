"""Which patches make up a training batch: seeded, with a position that can be saved."""

from doap_tf.data.samplers.group_sampler import GroupSampler
from doap_tf.data.samplers.mixture_sampler import MixtureSampler, batch_shares
from doap_tf.data.samplers.rome_sampler import RomeSampler
from doap_tf.data.samplers.same_sequence_sampler import SameSequenceSampler
from doap_tf.data.samplers.sampler import Sampler
from doap_tf.data.samplers.sequence_pair_sampler import SequencePairSampler

__all__ = [
    "GroupSampler",
    "MixtureSampler",
    "RomeSampler",
    "SameSequenceSampler",
    "Sampler",
    "SequencePairSampler",
    "batch_shares",
]
