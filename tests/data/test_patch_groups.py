import dataclasses

import numpy as np
import pytest

from doap_tf.data import PatchGroups
from doap_tf.errors import InputError
from tests.data.labelled import assert_same, with_labels


def test_group_numbers_become_dense_and_labels_have_three_columns():
    patches = np.arange(5 * 16, dtype=np.uint8).reshape(5, 4, 4)
    groups = PatchGroups.from_arrays(patches, [70, 5, 70, 9, 5], [1, 0, 1, -1, 0], ["a", "b"])
    assert groups.group_count == 3
    assert groups.group_sizes.tolist() == [2, 1, 2]
    assert groups.group_sequence.tolist() == [0, -1, 1]
    labels = groups.labels([4, 0, 3])
    assert labels.dtype == np.int32
    assert labels.tolist() == [[0, 0, -1], [2, 1, -1], [1, -1, -1]]
    assert [groups.rows_of(g).tolist() for g in range(3)] == [[1, 4], [3], [0, 2]]
    assert {s: g.tolist() for s, g in groups.groups_by_sequence.items()} == {0: [0], 1: [2]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patches": np.zeros([3, 4, 4], np.float32)}, "patches must be uint8"),
        ({"patches": np.zeros([3, 4, 5], np.uint8)}, "patches must be uint8"),
        ({"patches": np.zeros([0, 4, 4], np.uint8), "group": []}, "no patches"),
        ({"group": [0, 1]}, "group must be int32 \\[3\\]"),
        ({"sequence": [0, 0, 1], "sequence_names": ["a"]}, "sequence numbers must lie"),
        ({"sequence": [0, 1, 1], "sequence_names": ["a", "b"]}, "same sequence"),
        ({"sequence": [2**40] * 3, "sequence_names": ["a"]}, "sequence numbers must lie"),
        ({"sequence": [0.0, 0.0, 0.0], "sequence_names": ["a"]}, "sequence must be integers"),
        ({"patches": np.zeros([3, 0, 0], np.uint8)}, "no patches"),
        ({"magnification": -1}, "magnification must be a number above 0"),
    ],
)
def test_bad_arrays(change, message):
    arguments = {"patches": np.zeros([3, 4, 4], np.uint8), "group": [0, 0, 1]} | change
    with pytest.raises(InputError, match=message):
        PatchGroups.from_arrays(**arguments)


def test_content_hash_tells_contents_apart(make_groups):
    groups = make_groups([3, 1, 2], [0, 1, 1])
    hashes = {groups.content_hash(), with_labels(groups, 4).content_hash()}
    hashes.add(groups.subset(np.arange(5)).content_hash())
    patches = groups.patches.copy()
    patches[-1, -1, -1] ^= 1
    changed = PatchGroups.from_arrays(patches, groups.group, groups.sequence, groups.sequence_names)
    hashes.add(changed.content_hash())
    assert len(hashes) == 4


def test_concatenate_numbers_groups_sequences_and_tables_on(make_groups):
    mined = with_labels(make_groups([2, 3], [0, 1]), clusters=3)
    plain = make_groups([4, 1])
    larger = with_labels(make_groups([2, 2], [0, 0]), clusters=5)
    joined = PatchGroups.concatenate([mined, plain, larger])

    assert len(joined) == 14 and joined.group_count == 6
    assert joined.sequence_names == ("sequence0", "sequence1", "sequence0")
    first = {"row": 0, "group": 0, "sequence": 0}
    for part in (mined, plain, larger):
        rows = slice(first["row"], first["row"] + len(part))
        assert np.array_equal(joined.patches[rows], part.patches)
        assert np.array_equal(joined.group[rows], part.group + first["group"])
        offset = np.where(part.sequence >= 0, first["sequence"], 0)
        assert np.array_equal(joined.sequence[rows], part.sequence + offset)
        assert np.array_equal(joined.cluster[rows], part.cluster)
        first["row"] += len(part)
        first["group"] += part.group_count
        first["sequence"] += len(part.sequence_names)
    assert joined.far_apart.shape == (3, 5, 5)
    assert np.array_equal(joined.far_apart[:2, :3, :3], mined.far_apart)
    assert not joined.far_apart[:2, 3:].any() and not joined.far_apart[:2, :, 3:].any()
    assert np.array_equal(joined.far_apart[2], larger.far_apart[0])


def test_concatenate_requires_one_size(make_groups):
    with pytest.raises(InputError, match=r"\[4, 8\] pixels"):
        PatchGroups.concatenate([make_groups([2]), make_groups([2], side=4)])


def test_the_magnification_is_kept(make_groups, tmp_path):
    patches = np.zeros([4, 8, 8], np.uint8)
    known = PatchGroups.from_arrays(patches, [0, 0, 1, 1], magnification=14.0)
    assert known.save(tmp_path / "groups").magnification == 14
    assert known.subset(np.arange(2)).magnification == 14
    assert PatchGroups.concatenate([known, known]).magnification == 14
    assert PatchGroups.concatenate([known, make_groups([2])]).magnification is None
    other = dataclasses.replace(known, magnification=5.0)
    assert PatchGroups.concatenate([known, other]).magnification is None


def test_a_subset_is_numbered_anew(make_groups):
    groups = make_groups([2, 2, 2, 2], [0, 2, -1, 1], shuffle=False)
    part = groups.subset(np.array([2, 3, 4, 6]))
    assert part.sequence_names == ("sequence1", "sequence2")
    assert part.label_table.tolist() == [[0, 1, -1], [0, 1, -1], [1, -1, -1], [2, 0, -1]]
    assert np.array_equal(part.patches, groups.patches[[2, 3, 4, 6]])
    everything = groups.subset(np.arange(8))
    assert np.array_equal(everything.label_table, groups.label_table)


@pytest.mark.parametrize(("by", "share"), [("group", 3 / 12), ("sequence", 1 / 4)])
def test_split(make_groups, by, share):
    groups = with_labels(make_groups([2, 3, 1] * 4, np.arange(12) // 3), clusters=3)
    training, validation = groups.split(0.25, seed=3, by=by)

    seen = {patch.tobytes(): i for i, patch in enumerate(groups.patches)}
    for part in (training, validation):
        rows = [seen[patch.tobytes()] for patch in part.patches]
        assert np.array_equal(part.cluster, groups.cluster[rows])
        for name, sequence in zip(
            (groups.sequence_names[s] for s in groups.sequence[rows]), part.sequence, strict=True
        ):
            assert part.sequence_names[sequence] == name
        for number, name in enumerate(part.sequence_names):
            table = groups.far_apart[groups.sequence_names.index(name)]
            assert np.array_equal(part.far_apart[number], table)
        # groups stay together, and stay apart from each other
        pairs = set(zip(part.group.tolist(), groups.group[rows].tolist(), strict=True))
        assert len(pairs) == part.group_count == len({old for _, old in pairs})
    assert len(training) + len(validation) == len(groups)
    assert validation.group_count == share * groups.group_count
    if by == "sequence":
        assert not set(training.sequence_names) & set(validation.sequence_names)

    assert_same(groups.split(0.25, seed=3, by=by)[1], validation)
    assert len({groups.split(0.25, seed, by)[1].content_hash() for seed in range(9)}) > 1


def test_sequences_are_held_out_where_there_are_two(make_groups, caplog):
    groups = make_groups([2] * 8, [0, 0, 0, 1, 1, 1, -1, -1])
    training, validation = groups.hold_out(0.5, seed=0)
    assert not set(training.sequence_names) & set(validation.sequence_names)
    assert (training.sequence < 0).sum() + (validation.sequence < 0).sum() == 4
    assert not caplog.text
    for sequences in (None, [0] * 8):
        groups = make_groups([2] * 8, sequences)
        assert_same(groups.hold_out(0.25, seed=1)[1], groups.split(0.25, seed=1)[1])
        assert "fewer than two sequences" in caplog.text
        caplog.clear()


def test_bad_splits(make_groups):
    groups = make_groups([2, 2])
    for fraction in (0, 1, -0.5):
        with pytest.raises(InputError, match=f"not {fraction}"):
            groups.split(fraction, seed=0)
    with pytest.raises(InputError, match="single group"):
        make_groups([4]).split(0.5, seed=0)
