"""UBC PhotoTour and RomePatches on generated files in their layouts."""

import numpy as np
import pytest
import sklearn.metrics

from doap_tf.errors import InputError
from doap_tf.evaluation import UBC, Model, Rome
from doap_tf.evaluation.ubc import train_test_scores
from doap_tf.metrics import NORM_HAMMING, NORM_L2
from tests import layouts
from tests.evaluation.descriptors import Reader


def plain_fpr95(folder, patches, norm):
    """Goes through the list of pairs, nearest first, until 95 % of the matches are in."""
    table = np.loadtxt(folder / "m50_100000_100000_0.txt", int)
    scored = []
    for order, (first, point, _, second, other_point, *_) in enumerate(table):
        rows = (patches[first, 0, :32], patches[second, 0, :32])
        if norm == NORM_HAMMING:
            value = np.unpackbits(rows[0] ^ rows[1]).sum()
        else:
            value = np.linalg.norm(rows[0].astype(float) - rows[1])
        scored.append((value, order, point == other_point))
    matches, wrong = sum(label for *_, label in scored), 0
    accepted = 0
    for *_, label in sorted(scored):
        accepted += label
        wrong += not label
        if accepted >= 0.95 * matches:
            return wrong / (len(scored) - matches)


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
    assert "FPR95 mean" not in result.summary and "trained on liberty" in result.protocol


def test_missing_pairs_are_named(tmp_path):
    layouts.write_ubc(tmp_path / "liberty", groups=10)
    (tmp_path / "liberty" / "m50_100000_100000_0.txt").unlink()
    with pytest.raises(InputError, match=r"m50_100000_100000_0\.txt"):
        UBC(tmp_path, tmp_path / "cache")


def test_rome(tmp_path):
    halves = layouts.write_rome(tmp_path, groups=6)
    result = Rome(tmp_path, tmp_path / "cache", method="mean_precision").evaluate(
        Model("m", Reader())
    )
    for half, patches in halves.items():
        rows = patches.reshape(-1, 51 * 51)[:, :32].astype(float)
        groups = np.repeat(np.arange(6), 10)
        values = []
        for query in range(60):
            others = np.arange(60) != query
            scores = -np.linalg.norm(rows[others] - rows[query], axis=1)
            relevant = groups[others] == groups[query]
            values.append(sklearn.metrics.average_precision_score(relevant, scores))
        assert result.scores[half]["map"] == pytest.approx(np.mean(values), abs=1e-6)
    assert set(result.summary) == {"mAP train", "mAP test"}


def test_missing_rome_file_is_named(tmp_path):
    layouts.write_rome(tmp_path, groups=3)
    (tmp_path / "patch_retrieval_Rome_test.mat").unlink()
    with pytest.raises(InputError, match=r"patch_retrieval_Rome_test\.mat"):
        Rome(tmp_path, tmp_path / "cache")
