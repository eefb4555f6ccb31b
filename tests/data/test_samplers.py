import collections
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doap_tf.data import (
    GroupSampler,
    MixtureSampler,
    PatchGroups,
    RomeSampler,
    SameSequenceSampler,
    SequencePairSampler,
    batch_shares,
)
from doap_tf.data.samplers.filling import draw_rows, fill
from doap_tf.errors import InputError

SIZES = np.random.default_rng(5).choice([1, 2, 3, 4, 9, 21], 60, p=[0.1, 0.4, 0.2, 0.1, 0.1, 0.1])
SEQUENCES = np.arange(60) % 6


def runs(groups, rows):
    """The groups of a batch in order, with how many patches of each follow one another."""
    return [(g, len(list(run))) for g, run in itertools.groupby(groups.group[rows].tolist())]


SAMPLERS = {
    "whole groups": lambda g, **k: GroupSampler(g, **k),
    "views": lambda g, **k: GroupSampler(g, views=3, **k),
    "same sequence": lambda g, **k: SameSequenceSampler(g, views=4, sequences_per_batch=2, **k),
    "sequence pairs": lambda g, **k: SequencePairSampler(g, **k),
    "rome": lambda g, **k: RomeSampler(g, **k),
}


def mixture(groups, batch_size, seed=0):
    shares = batch_shares(batch_size, [2, 1])
    return MixtureSampler([GroupSampler(groups, n, seed + i) for i, n in enumerate(shares)])


ALL = SAMPLERS | {"mixture": mixture}


@pytest.fixture
def groups(make_groups):
    return make_groups(SIZES, SEQUENCES)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("batch_size", [40, 62])
def test_every_batch_is_exact_and_without_repetition(groups, kind, batch_size):
    joined = PatchGroups.concatenate([groups, groups]) if kind == "mixture" else groups
    sampler = ALL[kind](groups, batch_size=batch_size)
    for rows in itertools.islice(sampler, 200):
        assert rows.dtype == np.int32 and rows.shape == (batch_size,)
        assert len(np.unique(rows)) == batch_size
        chosen = [group for group, _ in runs(joined, rows)]
        assert len(set(chosen)) == len(chosen)  # patches of a group stand together


@pytest.mark.parametrize("kind", ALL)
def test_a_restored_sampler_continues_identically(groups, kind):
    sampler = ALL[kind](groups, batch_size=40, seed=7)
    for _ in range(25):
        state = json.loads(json.dumps(sampler.state()))
        step = sampler.step
        expected = [next(sampler) for _ in range(12)]
        restored = ALL[kind](groups, batch_size=40, seed=7)
        next(restored)
        restored.restore(state)
        assert restored.step == step
        assert np.array_equal([next(restored) for _ in range(12)], expected)


@pytest.mark.parametrize("kind", ALL)
def test_the_seed_decides(groups, kind):
    def batches(seed):
        return list(itertools.islice(ALL[kind](groups, batch_size=40, seed=seed), 5))

    assert np.array_equal(batches(1), batches(1))
    assert not np.array_equal(batches(1), batches(2))


@pytest.mark.parametrize("kind", ALL)
def test_a_position_of_another_run_is_refused(groups, kind):
    state = ALL[kind](groups, batch_size=40, seed=1).state()
    with pytest.raises(InputError, match="saved position"):
        ALL[kind](groups, batch_size=40, seed=2).restore(state)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_a_batch_that_the_groups_cannot_fill_is_refused(groups, kind):
    with pytest.raises(InputError, match=r"batch_size 100000 is more than the .* patches"):
        SAMPLERS[kind](groups, batch_size=100000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"batch_size": 8, "views": 1}, "views must be at least 2"),
    ],
)
def test_bad_arguments(groups, arguments, message):
    with pytest.raises(InputError, match=message):
        GroupSampler(groups, **arguments)


# Filling


@pytest.mark.parametrize(
    ("sizes", "batch_size", "places", "counts"),
    [
        ([3, 3, 2, 4], 8, [0, 1, 2], [3, 3, 2]),  # fits
        ([3, 3, 9, 4], 8, [0, 1, 2], [3, 3, 2]),  # the last one is cut
        ([3, 3, 2, 4], 7, [0, 3], [3, 4]),  # 3 + 3 would leave one: a group of 4 fits
        ([3, 3, 2, 9], 7, [0, 3], [3, 4]),  # or is cut to fit
        ([2, 2, 2, 1], 5, [0, 1, 3], [2, 2, 1]),  # or a group of one ends the batch
        ([3, 3, 3, 3], 7, [0, 1, 2], [3, 2, 2]),  # or two are cut
        ([2, 2, 2], 5, [0, 1, 2], [2, 2, 1]),  # or, among pairs, one stays alone
    ],
)
def test_fill_by_hand(sizes, batch_size, places, counts):
    filled = fill(np.array(sizes), batch_size)
    assert [part.tolist() for part in filled] == [places, counts]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=30), st.integers(2, 60))
def test_fill_leaves_no_lone_patch(sizes, batch_size):
    sizes = np.array(sizes)
    if sizes.sum() < batch_size:
        return
    places, counts = fill(sizes, batch_size)
    assert counts.sum() == batch_size
    assert (counts >= 1).all() and (counts <= sizes[places]).all()
    assert len(set(places.tolist())) == len(places)
    assert places[:-1].tolist() == list(range(len(places) - 1))  # only the last one is fetched
    cut = np.flatnonzero(counts < sizes[places])
    assert set(cut) <= {len(places) - 2, len(places) - 1}
    if (counts[cut] == 1).any():
        assert (sizes[places[-2] :] == 2).all()


def test_drawn_subsets_are_equally_likely(make_groups):
    groups = make_groups([5, 3])
    rng = np.random.default_rng(0)
    seen = collections.Counter()
    for _ in range(4000):
        rows = draw_rows(groups, np.array([1, 0]), np.array([3, 2]), rng)
        assert set(rows[:3]) == set(groups.rows_of(1))
        seen[tuple(sorted(rows[3:]))] += 1
    assert len(seen) == 10  # pairs out of five
    assert max(abs(n - 400) for n in seen.values()) < 5 * 400**0.5


# What a batch of each kind holds


def test_whole_groups_once_an_epoch(make_groups):
    groups = make_groups([4] * 30)
    sampler = GroupSampler(groups, batch_size=24)
    assert sampler.steps_per_epoch == 5
    orders = []
    for _ in range(3):
        epoch = [run for _ in range(5) for run in runs(groups, next(sampler))]
        assert sorted(epoch) == [(g, 4) for g in range(30)]
        orders.append(epoch)
    assert orders[0] != orders[1] != orders[2]


def test_whole_groups_carry_over(groups):
    sampler = GroupSampler(groups, batch_size=50)
    used = np.zeros(len(SIZES), int)
    for n in range(300):
        batch = runs(groups, next(sampler))
        cut = [i for i, (group, count) in enumerate(batch) if count < SIZES[group]]
        assert set(cut) <= {len(batch) - 2, len(batch) - 1}
        assert all(batch[i][1] >= 2 for i in cut)
        used[[group for group, _ in batch]] += 1
        # A group's turn in an epoch comes once; a few may have had the next epoch's already.
        assert used.max() - used.min() <= 2, n
    assert used.min() >= 300 // (sampler.steps_per_epoch + 1)


@pytest.mark.parametrize("left", [0, 1, 2, 3, 10])
def test_a_batch_of_nearly_all_patches(groups, left):
    sampler = GroupSampler(groups, batch_size=len(groups) - left)
    for rows in itertools.islice(sampler, 50):
        assert len(np.unique(rows)) == len(groups) - left


def test_groups_of_one_are_in_lists(groups):
    ones = set(np.flatnonzero(SIZES == 1))
    sampler = GroupSampler(groups, batch_size=40)
    epoch = {g for _ in range(sampler.steps_per_epoch + 1) for g, _ in runs(groups, next(sampler))}
    assert ones and ones <= epoch


def test_views_of_each_group(make_groups):
    groups = make_groups([8] * 10 + [2] * 5)
    sampler = GroupSampler(groups, batch_size=40, views=3)
    assert sampler.steps_per_epoch == 1
    views = collections.Counter()
    for _ in range(2000):
        rows = next(sampler)
        batch = runs(groups, rows)
        expected = [min(3, groups.group_sizes[group]) for group, _ in batch]
        assert [count for _, count in batch][:-2] == expected[:-2]
        views.update(rows.tolist())
    # All views of a group are chosen equally often.
    counts = np.array([[views[row] for row in groups.rows_of(group)] for group in range(10)])
    assert counts.std() < 0.1 * counts.mean()


def test_a_share_from_the_same_sequences(make_groups):
    groups = make_groups([4] * 2000, np.arange(2000) % 100)
    sampler = SameSequenceSampler(groups, 128, views=2, sequences_per_batch=4, share=0.5)
    assert sampler.steps_per_epoch == 4000 // 128
    chosen = set()
    for _ in range(50):
        rows = next(sampler)
        assert {count for _, count in runs(groups, rows)} == {2}
        common = collections.Counter(groups.sequence[rows].tolist()).most_common()
        # 64 patches of 4 sequences, 16 of each; by chance a few more among the other 64.
        assert all(count >= 16 for _, count in common[:4])
        assert all(count < 16 for _, count in common[4:])
        assert len(common) > 20
        chosen.update(sequence for sequence, _ in common[:4])
    assert len(chosen) > 60


def test_a_sequence_too_small_for_its_share_gives_all_it_has(make_groups):
    groups = make_groups([2] * 50, [0] * 3 + [1] * 47)
    sampler = SameSequenceSampler(groups, 40, sequences_per_batch=2, share=1.0)
    for rows in itertools.islice(sampler, 20):
        assert (groups.sequence[rows] == 0).sum() == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequences_per_batch": 7}, "is 7, but .* 6 sequences"),
        ({"share": 0}, "share .* not 0"),
    ],
)
def test_bad_shares(groups, arguments, message):
    with pytest.raises(InputError, match=message):
        SameSequenceSampler(groups, 40, **arguments)


def test_pairs_of_sequences(make_groups):
    groups = make_groups([16] * 60, np.arange(60) % 5)
    sampler = SequencePairSampler(groups, batch_size=128)
    assert sampler.steps_per_epoch == 10
    epochs = []
    for _ in range(3):
        pairs = []
        for rows in itertools.islice(sampler, 10):
            batch = runs(groups, rows)
            assert [count for _, count in batch] == [16] * 8
            sequences = groups.group_sequence[[group for group, _ in batch]]
            first, second = sequences[0], sequences[-1]
            assert sequences.tolist() == [first] * 4 + [second] * 4
            pairs.append((int(first), int(second)))
        assert sorted(pairs) == list(itertools.combinations(range(5), 2))
        epochs.append(pairs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_pairs_that_cannot_be_made(make_groups):
    groups = make_groups([4] * 20, [0] * 2 + [1] * 18)
    with pytest.raises(InputError, match="'sequence0' has only 8: choose at most 16"):
        SequencePairSampler(groups, 18)
    with pytest.raises(InputError, match="even"):
        SequencePairSampler(groups, 15)
    with pytest.raises(InputError, match="has 0 sequences"):
        SequencePairSampler(make_groups([4] * 20), 8)


def test_rome_starts_with_each_group_in_turn(make_groups):
    groups = make_groups([10] * 50)
    sampler = RomeSampler(groups, batch_size=64)
    assert sampler.steps_per_epoch == 50
    others = collections.Counter()
    for k in [*range(50), *range(50)]:
        batch = runs(groups, next(sampler))
        assert batch[0] == (k, 10)
        assert [count for _, count in batch] == [10, 10, 10, 10, 10, 10, 4]
        others.update(group for group, _ in batch[1:])
    assert len(others) == 50 and max(others.values()) < 30


def test_rome_requires_room_beside_a_group(make_groups):
    with pytest.raises(InputError, match="batch_size must be at least 12"):
        RomeSampler(make_groups([10] * 50), batch_size=11)


def test_a_mixture_holds_its_share_of_each(make_groups):
    parts = [make_groups([4] * 40), make_groups([2] * 30), make_groups([3] * 50)]
    shares = batch_shares(60, [3, 1, 1])
    assert shares == [36, 12, 12]
    samplers = [GroupSampler(part, n) for part, n in zip(parts, shares, strict=True)]
    alone = [GroupSampler(part, n) for part, n in zip(parts, shares, strict=True)]
    sampler = MixtureSampler(samplers)
    joined = PatchGroups.concatenate(parts)
    assert sampler.batch_size == 60
    assert sampler.steps_per_epoch == 12
    for rows in itertools.islice(sampler, 20):
        expected = np.concatenate(
            [part.patches[next(own)] for part, own in zip(parts, alone, strict=True)]
        )
        assert np.array_equal(joined.patches[rows], expected)
        assert np.bincount(np.digitize(joined.group[rows], [40, 70])).tolist() == shares


def test_a_sampler_tells_its_settings(make_groups):
    parts = [make_groups([4] * 40), make_groups([6] * 30, np.arange(30) % 3)]
    mixture = MixtureSampler(
        [
            GroupSampler(parts[0], 12, seed=3),
            SameSequenceSampler(parts[1], 24, views=4, sequences_per_batch=2, share=0.2),
        ]
    )
    assert str(mixture) == (
        "GroupSampler(batch_size=12, seed=3, views=None) over 160 patches in 40 groups + "
        "SameSequenceSampler(batch_size=24, seed=0, views=4) over 180 patches in 30 groups, "
        "0.2 of a batch from 2 sequences"
    )


@given(st.lists(st.floats(1, 10), min_size=1, max_size=6), st.integers(200, 5000))
def test_batch_shares_are_the_nearest_whole_numbers(weights, batch_size):
    shares = batch_shares(batch_size, weights)
    assert sum(shares) == batch_size
    exact = batch_size * np.array(weights) / np.sum(weights)
    assert (np.abs(shares - exact) < 1).all()


def test_bad_batch_shares():
    with pytest.raises(InputError, match="weights must be positive"):
        batch_shares(64, [1, 0])
    with pytest.raises(InputError, match="too small"):
        batch_shares(64, [1000, 1])
