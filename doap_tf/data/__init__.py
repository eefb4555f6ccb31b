"""Patches in memory, what to make batches of, and how to vary them."""

from typing import TYPE_CHECKING

from doap_tf.data.patch_groups import PatchGroups
from doap_tf.data.samplers import (
    GroupSampler,
    MixtureSampler,
    RomeSampler,
    SameSequenceSampler,
    Sampler,
    SequencePairSampler,
    batch_shares,
)
from doap_tf.lazy import lazy_names

if TYPE_CHECKING:
    from doap_tf.data.augmentation import turn_groups
    from doap_tf.data.builders import builder, builder_names
    from doap_tf.data.label_mining import mine_labels
    from doap_tf.data.tfds_groups import groups_from_tfds

__all__ = [
    "GroupSampler",
    "MixtureSampler",
    "PatchGroups",
    "RomeSampler",
    "SameSequenceSampler",
    "Sampler",
    "SequencePairSampler",
    "batch_shares",
    "builder",
    "builder_names",
    "groups_from_tfds",
    "mine_labels",
    "turn_groups",
]

# They import TensorFlow, scikit-learn or TFDS.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "builder": "doap_tf.data.builders",
        "builder_names": "doap_tf.data.builders",
        "groups_from_tfds": "doap_tf.data.tfds_groups",
        "mine_labels": "doap_tf.data.label_mining",
        "turn_groups": "doap_tf.data.augmentation",
    },
)
