import errno
import os

import numpy as np
import pytest

from doap_tf.data import PatchGroups, label_mining, mine_labels
from doap_tf.errors import InputError


@pytest.fixture
def patterned():
    """Two sequences of 60 and 6 patches that look like one of four patterns, and one outside."""
    rng = np.random.default_rng(0)
    patterns = np.kron(rng.integers(0, 2, [4, 8, 8]), np.ones([4, 4])) * 200 + 20
    pattern = rng.integers(0, 4, 70)
    patches = (patterns[pattern] + rng.normal(0, 5, [70, 32, 32])).astype(np.uint8)
    sequence = np.repeat([0, 1, -1], [60, 6, 4])
    return PatchGroups.from_arrays(patches, np.arange(70) // 2, sequence, ["large", "small"])


def test_number_and_content_of_features():
    assert label_mining.FEATURES == 2240
    patches = np.random.default_rng(0).integers(0, 256, [3, 64, 64], np.uint8)
    features = label_mining.appearance(patches)
    assert features.shape == (3, 2240) and features.dtype == np.float32
    assert np.array_equal(features[:, :1984], label_mining.hog(patches).reshape(3, -1))
    pixels = features[:, 1984:].reshape(3, 16, 16) * 255
    np.testing.assert_allclose(pixels.mean(), patches.mean(), atol=1)
    flat = label_mining.appearance(np.full([1, 65, 65], 51, np.uint8))
    np.testing.assert_allclose(flat[0], [0] * 1984 + [0.2] * 256, atol=1e-6)


def test_clusters_and_table_follow_from_the_features(patterned):
    mined = mine_labels(patterned, clusters=20)
    assert mined.far_apart.shape == (2, 20, 20)
    for sequence, count in ((0, 20), (1, 6)):
        rows = np.flatnonzero(mined.sequence == sequence)
        cluster = mined.cluster[rows]
        assert set(cluster) == set(range(count))
        features = label_mining.appearance(patterned.patches[rows]).astype(float)
        centres = [features[cluster == k].mean(axis=0) for k in range(count)]
        distances = {
            (i, j): np.linalg.norm(centres[i] - centres[j])
            for i in range(count)
            for j in range(i + 1, count)
        }
        threshold = np.percentile(list(distances.values()), 20)
        table = mined.far_apart[sequence]
        for (i, j), distance in distances.items():
            assert table[i, j] == table[j, i] == (distance > threshold)
        assert not table.diagonal().any()
        assert not table[count:].any() and not table[:, count:].any()
    assert (mined.cluster[mined.sequence < 0] == -1).all()


def test_patches_that_look_alike_share_a_cluster(patterned):
    mined = mine_labels(patterned, clusters=4)
    large = mined.sequence == 0
    patterns = patterned.patches[large][:, 2::4, 2::4] > 120
    looks = {tuple(p.ravel()) for p in patterns}
    pairs = {(tuple(p.ravel()), c) for p, c in zip(patterns, mined.cluster[large], strict=True)}
    assert len(looks) == len(pairs) == 4


def test_the_same_seed_gives_the_same_clusters(patterned):
    first, again = (mine_labels(patterned, clusters=10, seed=3) for _ in range(2))
    assert np.array_equal(first.cluster, again.cluster)
    assert np.array_equal(first.far_apart, again.far_apart)


def test_fewer_different_patches_than_clusters():
    groups = PatchGroups.from_arrays(
        np.full([6, 32, 32], 9, np.uint8), [0, 0, 1, 1, 2, 2], [0] * 6, ["constant"]
    )
    mined = mine_labels(groups, clusters=4)
    assert not mined.far_apart.any()


def test_mined_labels_are_kept_and_found(patterned, tmp_path, monkeypatch):
    groups = patterned.save(tmp_path / "groups")
    larger = np.kron(patterned.patches, np.ones([2, 2], np.uint8))
    originals = PatchGroups.from_arrays(
        larger, groups.group, groups.sequence, groups.sequence_names
    )
    own = mine_labels(groups, clusters=5)
    better = mine_labels(groups, lambda: originals, clusters=5)
    assert not np.array_equal(own.far_apart, better.far_apart)

    monkeypatch.setattr(label_mining, "_mine", None)
    groups = PatchGroups.load(tmp_path / "groups")
    for found in (
        mine_labels(groups, clusters=5),
        mine_labels(groups, lambda: pytest.fail("originals were read in vain"), clusters=5),
    ):
        assert np.array_equal(found.cluster, better.cluster)
        assert np.array_equal(found.far_apart, better.far_apart)
    with pytest.raises(TypeError):  # other settings: to be mined, which is patched away
        mine_labels(groups, clusters=6)

    for path in (tmp_path / "groups").glob("mined-*"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"mined-.*npz cannot be read"):
        mine_labels(groups, clusters=5)


def test_a_full_disk_costs_no_labels(patterned, tmp_path, monkeypatch, caplog):
    groups = patterned.save(tmp_path / "groups")
    before = sorted(path.name for path in (tmp_path / "groups").iterdir())

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(np, "savez_compressed", full)
    mined = mine_labels(groups, clusters=5)
    assert "not kept in" in caplog.text and "No space left" in caplog.text
    assert (mined.cluster[mined.sequence >= 0] >= 0).all()
    assert sorted(path.name for path in (tmp_path / "groups").iterdir()) == before


def test_bad_input(patterned, make_groups):
    with pytest.raises(InputError, match="no sequences"):
        mine_labels(make_groups([2, 2]))
    with pytest.raises(InputError, match="row for row"):
        mine_labels(patterned, lambda: patterned.subset(np.arange(10)))
