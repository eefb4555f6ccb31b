from .augmentation import turn_groups as turn_groups
from .builders import builder as builder, builder_names as builder_names
from .label_mining import mine_labels as mine_labels
from .patch_groups import PatchGroups as PatchGroups
from .samplers import (
    GroupSampler as GroupSampler,
    MixtureSampler as MixtureSampler,
    RomeSampler as RomeSampler,
    SameSequenceSampler as SameSequenceSampler,
    Sampler as Sampler,
    SequencePairSampler as SequencePairSampler,
    batch_shares as batch_shares,
)
from .tfds_groups import groups_from_tfds as groups_from_tfds
