"""HPatches' tasks on patches with known descriptors: exact values, any blocks, bad input."""

import csv
import tracemalloc
import types

import numpy as np
import pytest
import sklearn.metrics

from doap_tf.errors import InputError
from doap_tf.evaluation import HPatches, Model, PatchSequences
from doap_tf.evaluation.descriptor_cache import DescriptorCache
from doap_tf.evaluation.hpatches import tasks as tasks
from doap_tf.evaluation.hpatches.normalisation import Normalisation
from doap_tf.evaluation.hpatches.retrieval_task import evaluate_retrieval
from doap_tf.evaluation.hpatches.strip_descriptors import StripDescriptors
from doap_tf.evaluation.hpatches.verification_task import evaluate_verification
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from doap_tf.readers import STRIPS
from tests.evaluation import reference
from tests.evaluation.conftest import SEQUENCES, write_sequence
from tests.evaluation.descriptors import WIDTH, Reader

NORMS = pytest.mark.parametrize("norm", [NORM_L2, NORM_HAMMING], ids=["l2", "hamming"])
MEMORY = pytest.mark.parametrize("memory_mb", [0.001, 1024])


def typed(numbers, norm):
    """The descriptors that `Reader` gives for numbers."""
    dtype = np.uint8 if norm == NORM_HAMMING else np.float32
    return {place: rows.astype(dtype) for place, rows in numbers.items()}


def described(folder, norm, cache_dir):
    cache = DescriptorCache(cache_dir, Model("reader", Reader(norm)))
    return StripDescriptors(PatchSequences(folder), cache)


@NORMS
@MEMORY
def test_matching_is_the_plain_one(known, norm, memory_mb, tmp_path):
    folder, numbers = known
    benchmark = HPatches(PatchSequences(folder), tmp_path, tasks=["matching"], memory_mb=memory_mb)
    scores = benchmark.evaluate(Model("reader", Reader(norm))).scores["matching"]
    expected = reference.matching(typed(numbers, norm), list(SEQUENCES))
    assert {level: scores[level]["sequences"].keys() for level in expected} == {
        level: set(SEQUENCES) for level in expected
    }
    for level, value in expected.items():
        by_sequence = scores[level]["sequences"]
        assert scores[level]["mean"] == pytest.approx(value, abs=1e-12)
        assert scores[level]["illumination"] == by_sequence["i_lamp"]
        assert scores[level]["viewpoint"] == (by_sequence["v_wall"] + by_sequence["v_tree"]) / 2
        assert scores[level]["flat_mean"] == pytest.approx(np.mean(list(by_sequence.values())))
    assert scores["mean"] == pytest.approx(np.mean(list(expected.values())))
    assert scores["tough"]["mean"] < 1


def test_matching_averages_kinds_of_change_alike(tmp_path):
    """One sequence all right, three all wrong of the other kind: one half; a quarter if flat."""
    codes = np.arange(4)[:, None] * np.full(WIDTH, 10)
    wrong = {strip: codes if strip == "ref" else np.roll(codes, 1, axis=0) for strip in STRIPS}
    write_sequence(tmp_path / "data" / "i_right", dict.fromkeys(STRIPS, codes))
    for name in ("v_1", "v_2", "v_3"):
        write_sequence(tmp_path / "data" / name, wrong)
    benchmark = HPatches(PatchSequences(tmp_path / "data"), tmp_path, tasks=["matching"])
    scores = benchmark.evaluate(Model("reader", Reader())).scores["matching"]
    assert (scores["mean"], scores["hard"]["mean"]) == (0.5, 0.5)
    assert (scores["flat_mean"], scores["hard"]["flat_mean"]) == (0.25, 0.25)


def test_matching_known_answers(tmp_path):
    """Easy: all right. Hard: none. Tough: three of four right, the wrong one being the farthest."""
    codes = np.arange(4)[:, None] * np.full(WIDTH, 10)
    last_wrong = codes.copy()
    last_wrong[3] = 200  # so row 3 finds row 2, farther than the others find themselves
    contents = {"ref": codes, "e": codes, "h": np.roll(codes, 1, axis=0), "t": last_wrong}
    strips = {name: contents.get(name, contents[name[0]]) for name in STRIPS if name != "ref"}
    write_sequence(tmp_path / "data" / "v_one", {"ref": codes} | strips)
    benchmark = HPatches(PatchSequences(tmp_path / "data" / "v_one"), tmp_path, tasks=["matching"])
    scores = benchmark.evaluate(Model("reader", Reader())).scores["matching"]
    assert [scores[level]["mean"] for level in ("easy", "hard", "tough")] == [1.0, 0.0, 0.75]


@NORMS
@MEMORY
def test_retrieval_is_the_plain_one(known, norm, memory_mb, tmp_path, monkeypatch):
    folder, numbers = known
    rng = np.random.default_rng(1)
    names = list(SEQUENCES)
    everything = [(n, i) for n, name in enumerate(names) for i in range(SEQUENCES[name])]
    patches = rng.permutation(everything)
    task = tasks.RetrievalTask(patches[:10], patches[10:])
    pools = (7, 12, 20)
    monkeypatch.setattr("doap_tf.evaluation.hpatches.retrieval_task.POOLS", (*pools, 500))
    scores = evaluate_retrieval(described(folder, norm, tmp_path), task, "trapezoid", memory_mb)
    expected = reference.retrieval(
        typed(numbers, norm),
        *([(names[s], i) for s, i in part] for part in (task.queries, task.distractors)),
        pools,
    )
    assert set(scores["easy"]) == {*map(str, pools), "mean"}
    for (level, pool), value in expected.items():
        assert scores[level][str(pool)] == pytest.approx(value, abs=1e-12)
    assert scores["tough"]["mean"] < scores["easy"]["mean"]


@NORMS
@MEMORY
def test_verification_is_scikit_learns(known, norm, memory_mb, tmp_path):
    folder, numbers = known
    names = list(SEQUENCES)
    task = tasks.draw_verification(list(SEQUENCES.values()), 200)
    scores, _ = evaluate_verification(
        described(folder, norm, tmp_path), task, "trapezoid", memory_mb
    )

    def measured(pairs, prefix):
        named = [
            [(names[s], t, i) for s, t, i in pair]
            for pair in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)
        ]
        return reference.pair_distances(typed(numbers, norm), named, prefix)

    for level, prefix in reference.LEVELS.items():
        positives = measured(task.positives, prefix)
        for kind in ("same_sequence", "other_sequences"):
            negatives = measured(getattr(task, kind), prefix)
            found = scores[level][kind]
            labels = [False] * 200 + [True] * 200
            auc = sklearn.metrics.roc_auc_score(labels, -np.array(negatives + positives))
            assert found["balanced_auc"] == pytest.approx(auc)
            few = reference.trapezoid(negatives + positives[:40], labels[:240])
            assert found["imbalanced_ap"] == pytest.approx(few)
    assert scores["tough"]["same_sequence"]["balanced_auc"] < 1


def test_perfect_descriptors_score_one(known, tmp_path):
    """Targets equal to their reference: everything that can be right is."""
    _, numbers = known
    for sequence in SEQUENCES:
        rows = numbers[sequence, "ref"]
        write_sequence(tmp_path / "data" / sequence, dict.fromkeys(STRIPS, rows))
    benchmark = HPatches(PatchSequences(tmp_path / "data"), tmp_path, pairs=300)
    result = benchmark.evaluate(Model("reader", Reader()))
    assert result.summary["matching"] == result.summary["retrieval"] == 1
    # Drawn negatives from "other" sequences may be the patch itself, by the official rule.
    assert result.scores["verification"]["easy"]["same_sequence"] == {
        "balanced_auc": 1.0,
        "balanced_auc_in_order": 1.0,
        "imbalanced_ap": 1.0,
    }


def test_random_descriptors_are_chance(known, tmp_path):
    """Unrelated numbers: the chance of a right neighbour is one in a sequence's length."""
    rng = np.random.default_rng(5)
    for sequence, length in SEQUENCES.items():
        strips = {strip: rng.integers(0, 256, (length, WIDTH)) for strip in STRIPS}
        write_sequence(tmp_path / "data" / sequence, strips)
    benchmark = HPatches(PatchSequences(tmp_path / "data"), tmp_path, pairs=2000)
    result = benchmark.evaluate(Model("reader", Reader()))
    assert result.summary["matching"] < 0.15
    for level in reference.LEVELS:
        auc = result.scores["verification"][level]["same_sequence"]["balanced_auc"]
        assert auc == pytest.approx(0.5, abs=0.06)


def test_verification_memory_limit_holds(tmp_path):
    """Twelve sequences of 60 patches, all descriptors of a level larger than the limit."""

    lengths = {f"v_{number}": 60 for number in range(12)}
    rng = np.random.default_rng(0)
    rows = {(s, t): rng.standard_normal((60, 512), np.float32) for s in lengths for t in STRIPS}

    class Strips(StripDescriptors):
        def __init__(self):
            self.norm = NORM_L2
            self.sequences = types.SimpleNamespace(lengths=lengths)

        def load(self, sequence, strip):
            return rows[sequence, strip]

    task = tasks.draw_verification([60] * 12, 1000)
    limit = 4
    unlimited, _ = evaluate_verification(Strips(), task, "trapezoid", 1024)
    tracemalloc.start()
    try:
        limited, _ = evaluate_verification(Strips(), task, "trapezoid", limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert limited == unlimited
    assert 12 * 60 * 6 * 512 * 4 > 2 * limit * 2**20 > 2 * peak


def test_descriptors_are_computed_once(known, tmp_path):
    folder, _ = known
    reader = Reader()
    model = Model("reader", reader)
    benchmark = HPatches(PatchSequences(folder), tmp_path, tasks=["matching"])
    first = benchmark.evaluate(model)
    described = reader.described
    assert described == 64 + 16 * sum(SEQUENCES.values())  # probes of the model's identity first
    assert benchmark.evaluate(model).scores == first.scores
    assert reader.described == described


@pytest.mark.parametrize("damage", [None, b"", b"no archive"])
def test_drawn_pairs_are_kept(known, tmp_path, damage, monkeypatch):
    sequences, model = PatchSequences(known[0]), Model("reader", Reader())
    first = HPatches(sequences, tmp_path, tasks=["verification"], pairs=50).evaluate(model)
    (kept,) = tmp_path.glob("tasks/*.npz")
    if damage is None:
        monkeypatch.setattr(tasks, "draw_verification", None)
    else:
        kept.write_bytes(damage)
    again = HPatches(sequences, tmp_path, tasks=["verification"], pairs=50).evaluate(model)
    assert again.scores == first.scores


def test_normalisation_is_learnt_on_the_training_part(known, tmp_path, monkeypatch):
    folder, numbers = known
    parts = {"test": ["v_wall", "v_tree"], "train": ["i_lamp"]}
    monkeypatch.setattr(
        "doap_tf.evaluation.hpatches.patch_sequences.split_sequences",
        lambda split, part="test": parts[part],
    )
    cache = DescriptorCache(tmp_path, Model("reader", Reader()))
    descriptors = StripDescriptors(PatchSequences(folder, "a"), cache, normalise=True)
    expected = Normalisation([numbers["i_lamp", "ref"]])(numbers["v_wall", "t2"])
    np.testing.assert_allclose(descriptors.load("v_wall", "t2"), expected, atol=1e-6)
    benchmark = HPatches(PatchSequences(folder, "a"), tmp_path, tasks=["matching"], normalise=True)
    result = benchmark.evaluate(Model("reader", Reader()))
    assert list(result.scores["matching"]["easy"]["sequences"]) == parts["test"]
    assert "ZCA and power-law normalisation" in result.protocol and result.split == "a"


def test_normalisation_needs_training_sequences(known, tmp_path):
    with pytest.raises(InputError, match="'all' has no training sequences"):
        HPatches(PatchSequences(known[0]), tmp_path, normalise=True)


def test_bits_cannot_be_normalised(known, tmp_path):
    sequences = PatchSequences(known[0])
    cache = DescriptorCache(tmp_path, Model("reader", Reader(NORM_HAMMING)))
    with pytest.raises(InputError, match=r"reader has binary descriptors"):
        StripDescriptors(sequences, cache, normalise=True)


@pytest.mark.parametrize("names", [["matching", "guessing"], []])
def test_unknown_task(known, tmp_path, names):
    with pytest.raises(InputError, match="verification, matching, retrieval"):
        HPatches(PatchSequences(known[0]), tmp_path, tasks=names)


def test_retrieval_of_a_single_sequence(known, tmp_path):
    """Left out by default, an error if asked for: there is nobody else to be confused with."""
    sequences = PatchSequences(known[0] / "v_wall")
    result = HPatches(sequences, tmp_path, pairs=50).evaluate(Model("reader", Reader()))
    assert set(result.scores) == {"verification", "matching"}
    assert "other_sequences" not in result.scores["verification"]["easy"]
    benchmark = HPatches(sequences, tmp_path, tasks=["retrieval"])
    with pytest.raises(InputError, match="retrieval needs queries, and distractors"):
        benchmark.evaluate(Model("reader", Reader()))


class Broken(Reader):
    """Spoils the descriptors of everything but the probes."""

    def __init__(self, spoil):
        super().__init__()
        self.spoil = spoil

    def describe(self, patches, batch_size=1024):
        rows = super().describe(patches)
        return rows if len(patches) == 64 else self.spoil(rows)


def with_nan(rows):
    rows[3, 0] = np.nan
    return rows


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (with_nan, r"i_lamp/ref\.png by broken must be finite; row 3"),
        (lambda rows: rows[:, :7], r"i_lamp/ref\.png by broken.*\[9, 32\], not \[9, 7\]"),
        (lambda rows: rows[0], r"i_lamp/ref\.png by broken must have the shape \[N, D\]"),
        (lambda rows: rows[1:], r"i_lamp/ref\.png by broken.*\[9, 32\], not \[8, 32\]"),
    ],
    ids=["nan", "width", "rank", "count"],
)
def test_bad_descriptors_are_named_and_not_kept(known, tmp_path, spoil, named):
    benchmark = HPatches(PatchSequences(known[0]), tmp_path, tasks=["matching"])
    with pytest.raises(InputError, match=named):
        benchmark.evaluate(Model("broken", Broken(spoil)))
    assert not list(tmp_path.rglob("*.npy"))


def write_tasks(folder, split, names, task, retrieval):
    """The official files."""
    folder.mkdir()
    for kind, pairs in zip(("pos", "neg_intra", "neg_inter"), vars(task).values(), strict=True):
        with (folder / f"verif_{kind}_split-{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["s1", "t1", "idx1", "s2", "t2", "idx2"])
            for first, second in zip(pairs.first, pairs.second, strict=True):
                writer.writerow([names[first[0]], *first[1:], names[second[0]], *second[1:]])
    for kind, patches in zip(("queries", "distractors"), vars(retrieval).values(), strict=True):
        lines = [f"{names[sequence]},{index}" for sequence, index in patches]
        (folder / f"retr_{kind}_split-{split}.csv").write_text("\n".join(["s,idx", *lines]))


@pytest.fixture
def task_files(known, tmp_path):
    sequences = PatchSequences(known[0])
    lengths = list(sequences.lengths.values())
    verification = tasks.draw_verification(lengths, 100)
    total = sum(lengths)
    retrieval = tasks.draw_retrieval(
        lengths, lambda number: np.full(lengths[number], 99.0), total // 3, total
    )
    write_tasks(tmp_path / "tasks", "all", list(sequences.lengths), verification, retrieval)
    return tmp_path / "tasks"


def test_task_files_give_what_drawn_tasks_give(known, tmp_path, task_files):
    sequences, model = PatchSequences(known[0]), Model("reader", Reader())
    drawn = HPatches(sequences, tmp_path, pairs=100).evaluate(model)
    read = HPatches(sequences, tmp_path, tasks_dir=task_files).evaluate(model)
    assert read.scores == drawn.scores
    assert (drawn.seed, read.seed) == (42, None)
    assert "official task files" in read.protocol and "drawn by" in drawn.protocol


@pytest.mark.parametrize(
    ("name", "spoil", "named"),
    [
        ("retr_queries_split-all.csv", None, r"retr_queries_split-all\.csv is missing"),
        ("verif_pos_split-all.csv", None, r"verif_pos_split-all\.csv is missing"),
        ("retr_queries_split-all.csv", "s,idx\nv_none,1\n", "names the sequence 'v_none'"),
        ("retr_queries_split-all.csv", "s,idx\nv_wall,14\n", "names patch 14 of v_wall"),
        ("retr_queries_split-all.csv", "s,idx\nv_wall,x\n", "cannot be read"),
        ("retr_queries_split-all.csv", "s,idx\nv_wall\n", "cannot be read"),
        ("retr_queries_split-all.csv", "idx,s\n", "columns idx,s, not s,idx"),
        (
            "verif_pos_split-all.csv",
            "s1,t1,idx1,s2,t2,idx2\nv_wall,6,1,v_wall,0,1\n",
            "names patch 6,1 of v_wall",
        ),
    ],
)
def test_bad_task_files_are_named(known, tmp_path, task_files, name, spoil, named):
    if spoil is None:
        (task_files / name).unlink()
    else:
        (task_files / name).write_text(spoil)
    with pytest.raises(InputError, match=named):
        HPatches(PatchSequences(known[0]), tmp_path, tasks_dir=task_files)
