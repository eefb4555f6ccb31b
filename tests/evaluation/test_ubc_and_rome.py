"""UBC PhotoTour and RomePatches on generated files in their layouts."""

import dataclasses

import numpy as np
import pytest
import sklearn.metrics

from doap_tf.errors import InputError
from doap_tf.evaluation import UBC, Model, Rome, load_model
from doap_tf.evaluation.ubc import train_test_scores
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from tests import layouts
from tests.evaluation.descriptors import Reader


def plain_fpr95(folder, patches, norm):
    """Raises the threshold until 95 % of the matches are accepted."""
    table = np.loadtxt(folder / "m50_100000_100000_0.txt", int)
    scored = []
    for first, point, _, second, other_point, *_ in table:
        rows = (patches[first, 0, :32], patches[second, 0, :32])
        if norm == NORM_HAMMING:
            value = np.unpackbits(rows[0] ^ rows[1]).sum()
        else:
            value = np.linalg.norm(rows[0].astype(float) - rows[1])
        scored.append((value, point == other_point))
    matches = sum(label for _, label in scored)
    for threshold, _ in sorted(scored):
        accepted = [label for value, label in scored if value <= threshold]
        if sum(accepted) >= 0.95 * matches:
            return accepted.count(False) / (len(scored) - matches)


@pytest.mark.parametrize("norm", [NORM_L2, NORM_HAMMING])
def test_fpr95(tmp_path, norm):
    patches, _ = layouts.write_ubc(tmp_path / "liberty", groups=60, pairs=80)
    result = UBC(tmp_path, tmp_path / "cache", memory_mb=0.5).evaluate(Model("m", Reader(norm)))
    expected = plain_fpr95(tmp_path / "liberty", patches, norm)
    assert 0 < expected < 1
    assert result.scores["liberty"]["fpr95"] == pytest.approx(expected)
    assert result.summary == {"FPR95 liberty": expected, "FPR95 mean": expected}


def test_table_of_training_and_test_sets(tmp_path):
    for seed, name in enumerate(("liberty", "notredame", "yosemite")):
        layouts.write_ubc(tmp_path / name, groups=30, pairs=40, seed=seed)
    benchmark = UBC(tmp_path, tmp_path / "cache")
    names = ("run_liberty", "run_yosemite", "pixels")
    results = [benchmark.evaluate(Model(name, Reader())) for name in names]
    rates = {name: values["fpr95"] for name, values in results[0].scores.items()}
    assert results[0].summary["FPR95 mean"] == (rates["notredame"] + rates["yosemite"]) / 2
    assert results[2].summary["FPR95 mean"] == pytest.approx(np.mean(list(rates.values())))
    table = train_test_scores(results)
    assert set(table) == {"run_*", "pixels"}
    assert table["run_*"] == {
        "yosemite → liberty": rates["liberty"],
        "liberty → notredame": rates["notredame"],
        "yosemite → notredame": rates["notredame"],
        "liberty → yosemite": rates["yosemite"],
        "mean": pytest.approx(
            np.mean([rates[n] for n in ("liberty", "notredame", "notredame", "yosemite")])
        ),
    }
    assert len(table["pixels"]) == 7


def test_training_set_from_the_record(tmp_path):
    layouts.write_ubc(tmp_path / "liberty", groups=30, pairs=40)
    model = Model("mine", Reader(), {"data": "ubc_phototour/liberty", "batch_size": 512})
    result = UBC(tmp_path, tmp_path / "cache").evaluate(model)
    assert result.summary == {} and result.seen == "mine was trained on liberty."


def test_scenes_that_a_shipped_network_was_trained_on_have_empty_cells(tmp_path):
    for seed, name in enumerate(("liberty", "notredame")):
        layouts.write_ubc(tmp_path / name, groups=30, pairs=40, seed=seed)
    shipped = dataclasses.replace(load_model("doap-tiny-256b"), descriptor=Reader())
    unknown = Model("mystery", Reader())
    first, second = map(UBC(tmp_path, tmp_path / "cache").evaluate, (shipped, unknown))
    assert list(first.summary) == ["FPR95 liberty", "FPR95 mean"]
    assert first.seen == "doap-tiny-256b was trained on notredame."
    assert first.record()["seen"] == first.seen
    assert "What mystery was trained on is not known" in second.seen
    table = train_test_scores([first, second])
    assert list(table["doap-tiny-256b"]) == ["notredame → liberty", "mean"]
    assert len(table["mystery"]) == 5


def test_missing_pairs_are_named(tmp_path):
    layouts.write_ubc(tmp_path / "liberty", groups=10)
    (tmp_path / "liberty" / "m50_100000_100000_0.txt").unlink()
    with pytest.raises(InputError, match=r"m50_100000_100000_0\.txt"):
        UBC(tmp_path, tmp_path / "cache")


@pytest.mark.parametrize("queries", ["first", "all"])
def test_rome(tmp_path, queries):
    """The layout has the queries first; `all` lets every patch search the rest."""
    halves = layouts.write_rome(tmp_path, groups=6)
    result = Rome(tmp_path, tmp_path / "cache", queries=queries, method="mean_precision").evaluate(
        Model("m", Reader())
    )
    assert f"queries={queries}" in result.protocol
    firsts = np.arange(0, 60, 10)
    for half, patches in halves.items():
        rows = patches.reshape(-1, 51 * 51)[:, :32].astype(float)
        groups = np.repeat(np.arange(6), 10)
        values = []
        for query in range(60) if queries == "all" else firsts:
            others = np.arange(60) != query
            if queries == "first":
                others[firsts] = False
            scores = -np.linalg.norm(rows[others] - rows[query], axis=1)
            relevant = groups[others] == groups[query]
            values.append(sklearn.metrics.average_precision_score(relevant, scores))
        assert result.scores[half]["map"] == pytest.approx(np.mean(values), abs=1e-6)
    assert set(result.summary) == {"mAP train", "mAP test"}


def test_the_first_patch_of_each_group_queries_by_default(tmp_path):
    layouts.write_rome(tmp_path, groups=3)
    model = Model("m", Reader())
    default, first, every = (
        Rome(tmp_path, tmp_path / "cache", **chosen).evaluate(model)
        for chosen in ({}, {"queries": "first"}, {"queries": "all"})
    )
    assert (default.scores, default.protocol) == (first.scores, first.protocol)
    assert default.scores != every.scores
    with pytest.raises(InputError, match="one of first, all, not 'last'"):
        Rome(tmp_path, tmp_path / "cache", queries="last")


def test_missing_rome_file_is_named(tmp_path):
    layouts.write_rome(tmp_path, groups=3)
    (tmp_path / "patch_retrieval_Rome_test.mat").unlink()
    with pytest.raises(InputError, match=r"patch_retrieval_Rome_test\.mat"):
        Rome(tmp_path, tmp_path / "cache")
