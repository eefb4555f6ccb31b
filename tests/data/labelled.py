"""Patch groups with made-up labels, and how they are compared."""

import numpy as np

from doap_tf.data import PatchGroups


def with_labels(groups, clusters):
    """Groups with random clusters and a random table."""
    rng = np.random.default_rng(1)
    return PatchGroups(
        groups.patches,
        groups.group,
        groups.sequence,
        rng.integers(0, clusters, len(groups)).astype(np.int32),
        groups.sequence_names,
        rng.random([len(groups.sequence_names), clusters, clusters]) < 0.5,
    )


def assert_same(a, b):
    assert np.array_equal(a.patches, b.patches)
    assert np.array_equal(a.label_table, b.label_table)
    assert a.sequence_names == b.sequence_names
    assert a.source == b.source
    assert (a.far_apart is None) == (b.far_apart is None)
    assert a.far_apart is None or np.array_equal(a.far_apart, b.far_apart)
