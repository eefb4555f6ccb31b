"""Label mining: which patches of the same sequence differ enough to be distractors."""

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
from absl import logging

from doap_tf.data.group_folder import read_mined_labels, write_mined_labels
from doap_tf.data.hog import CELL, CHANNELS, hog
from doap_tf.data.patch_groups import PatchGroups
from doap_tf.errors import InputError
from doap_tf.progress import progress

MINED_SIZE = 64
_THUMBNAIL_SIZE = 16
FEATURES = (MINED_SIZE // CELL) ** 2 * CHANNELS + _THUMBNAIL_SIZE**2

_BLOCK = 1024
_PERCENTILE = 20  # of the distances between centres, beyond which clusters are far apart


def mine_labels(
    groups: PatchGroups,
    originals: Callable[[], PatchGroups] | None = None,
    clusters: int = 100,
    seed: int = 0,
) -> PatchGroups:
    """Clusters the patches of each sequence by appearance and marks clusters that are far apart.

    Two clusters are far apart if the distance of their centres is above the 20th percentile of
    all such distances in the sequence. The result is cached in the folder of `groups`, if it has
    one. One sequence is in memory at a time.

    Args:
        groups: Patches with sequences.
        originals: Returns the same patches, row for row, at 64×64 or their own size. Features are
            computed at 64×64, so patches that were shrunk for a network have lost detail. Called
            only if there is something to mine. None: `groups` themselves, or what was mined from
            originals before.
        clusters: K; a sequence of fewer patches has as many clusters as patches.
        seed: Of K-means.

    Returns:
        The groups with `cluster` and `far_apart` filled in.

    Reference: He, Lu, Sclaroff, Local Descriptors Optimized for Average Precision, appendix.
    """
    if not groups.groups_by_sequence:
        raise InputError(f"{groups.source} has no sequences to mine labels in.")
    settings = f"{clusters}-clusters-percentile-{_PERCENTILE}-seed-{seed}"
    from_originals = f"mined-{settings}.npz"
    from_groups = f"mined-{settings}-{groups.size}px.npz"
    accepted = [from_originals] if originals else [from_originals, from_groups]
    if groups.directory is not None:
        for name in accepted:
            if (groups.directory / name).exists():
                return dataclasses.replace(groups, **read_mined_labels(groups.directory / name))

    patches = groups.patches if originals is None else _same_rows(groups, originals()).patches
    cluster, far_apart = _mine(groups, patches, clusters, seed)
    if groups.directory is not None:
        path = groups.directory / accepted[-1]
        try:
            write_mined_labels(path, cluster, far_apart)
        except OSError as error:
            # Minutes of mining must not be lost because a shared cache is read-only.
            logging.warning("mined labels are used but not kept in %s: %s", path, error)
    return dataclasses.replace(groups, cluster=cluster, far_apart=far_apart)


def appearance(patches: np.ndarray) -> np.ndarray:
    """Returns the features that are clustered: HOG at 64×64, then the pixels at 16×16.

    Pixel values lie in [0, 1]. Between random patches of Notre Dame the squared distance is then
    52 from HOG and 13 from pixels; with values in [0, 255] HOG would not count at all.

    Args:
        patches: uint8 [N, S, S].

    Returns:
        float32 [N, 2240].
    """
    from doap_tf.preprocessing import resize_patches

    features = np.empty([len(patches), FEATURES], np.float32)
    for start in range(0, len(patches), _BLOCK):
        block = patches[start : start + _BLOCK, :, :, None]
        large = resize_patches(block, MINED_SIZE).numpy()[..., 0].round().astype(np.uint8)
        small = resize_patches(block, _THUMBNAIL_SIZE).numpy() / 255
        features[start : start + _BLOCK] = np.concatenate(
            [values.reshape(len(block), -1) for values in (hog(large), small)], axis=1
        )
    return features


def _mine(
    groups: PatchGroups, patches: np.ndarray, clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    cluster = np.full(len(groups), -1, np.int32)
    far_apart = np.zeros([len(groups.sequence_names), clusters, clusters], bool)
    rows_by_sequence = np.argsort(groups.sequence, kind="stable")
    ends = np.searchsorted(
        groups.sequence[rows_by_sequence], np.arange(-1, len(far_apart)), "right"
    )
    for sequence in progress(range(len(far_apart)), "label mining", unit="sequence"):
        rows = rows_by_sequence[ends[sequence] : ends[sequence + 1]]
        if len(rows):
            cluster[rows], table = _cluster(appearance(patches[rows]), clusters, seed)
            far_apart[sequence, : len(table), : len(table)] = table
    return cluster, far_apart


def _cluster(features: np.ndarray, clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns cluster numbers [N] and which clusters are far apart, bool [k, k], k ≤ clusters."""
    import threadpoolctl
    from scipy.spatial import distance
    from sklearn import cluster, exceptions

    kmeans = cluster.KMeans(min(clusters, len(features)), n_init=1, random_state=seed)
    # With one thread the sums, and so the clusters, are the same on every machine.
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        # Fewer different patches than clusters: the clusters left over stay empty.
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        numbers = kmeans.fit_predict(features)
    distances = distance.pdist(kmeans.cluster_centers_)
    if len(distances) == 0:
        return numbers, np.zeros([1, 1], bool)
    threshold = np.percentile(distances, _PERCENTILE)
    return numbers, distance.squareform(distances) > threshold


def _same_rows(groups: PatchGroups, originals: PatchGroups) -> PatchGroups:
    same = len(originals) == len(groups) and (
        (originals.group == groups.group).all() and (originals.sequence == groups.sequence).all()
    )
    if not same:
        raise InputError(
            f"the patches of {originals.source} are not those of {groups.source}, row for row."
        )
    return originals
