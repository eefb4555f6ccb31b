from .augmentation import turn_groups as turn_groups
from .builders import builder as builder, builder_names as builder_names
from .label_mining import mine_labels as mine_labels
from .patch_groups import PatchGroups as PatchGroups
from .samplers.group_sampler import GroupSampler as GroupSampler
from .samplers.mixture_sampler import MixtureSampler as MixtureSampler, batch_shares as batch_shares
from .samplers.rome_sampler import RomeSampler as RomeSampler
from .samplers.same_sequence_sampler import SameSequenceSampler as SameSequenceSampler
from .samplers.sampler import Sampler as Sampler
from .samplers.sequence_pair_sampler import SequencePairSampler as SequencePairSampler
from .tfds_groups import groups_from_tfds as groups_from_tfds
