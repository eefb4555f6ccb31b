"""Patches in memory, what to make batches of, and how to vary them."""

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from doap_tf.data.augmentation import augment
    from doap_tf.data.builders import builder, builder_names
    from doap_tf.data.label_mining import mine_labels

__all__ = [
    "GroupSampler",
    "MixtureSampler",
    "PatchGroups",
    "RomeSampler",
    "SameSequenceSampler",
    "Sampler",
    "SequencePairSampler",
    "augment",
    "batch_shares",
    "builder",
    "builder_names",
    "mine_labels",
]

# Resolved on first use: they import TensorFlow, scikit-learn or TFDS.
_HOMES = {
    "augment": "doap_tf.data.augmentation",
    "builder": "doap_tf.data.builders",
    "builder_names": "doap_tf.data.builders",
    "mine_labels": "doap_tf.data.label_mining",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'doap_tf.data' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
