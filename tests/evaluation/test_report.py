"""Reports: exact fields, all files, whole or not at all."""

import csv
import dataclasses
import json
import re

import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import HPatches, Model, PatchSequences, Result, write_report
from doap_tf.evaluation.report import comparison_tables, protocols
from doap_tf.evaluation.result import flattened
from doap_tf.metrics import NORM_HAMMING
from tests.evaluation.descriptors import Reader


@pytest.fixture(scope="module")
def results(known, tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    benchmark = HPatches(PatchSequences(known[0]), cache, pairs=100)
    models = [Model("numbers", Reader()), Model("runs/bits & <pieces>", Reader(NORM_HAMMING))]
    return [benchmark.evaluate(model) for model in models]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    return write_report(results, tmp_path_factory.mktemp("reports"))


def ubc_result(name, rate, batch_size, split="liberty"):
    training = {"batch_size": batch_size} if batch_size else {}
    summary = {"FPR95 liberty": rate, "FPR95 mean": rate}
    scores = {"liberty": {"fpr95": rate}}
    return Result("ubc", "p", split, None, Model(name, Reader(), training), scores, summary)


def test_record_has_the_fields_that_are_fixed(results, folder):
    record = json.loads((folder / "numbers.json").read_text("utf-8"))
    assert list(record) == [
        "benchmark",
        "protocol",
        "seen",
        "split",
        "seed",
        "model",
        "weights_sha256",
        "backend",
        "precision",
        "scores",
        "environment",
    ]
    assert record["benchmark"] == "hpatches" and record["split"] == "all"
    assert record["seed"] == 42 and record["model"] == "numbers"
    assert record["weights_sha256"] == "0" * 64
    assert record["scores"] == results[0].scores
    assert {"numpy", "doap_tf"} <= record["environment"]["packages"].keys()


def test_all_files_are_there_and_shown(folder):
    assert folder.name == "hpatches-all"
    page = (folder / "index.html").read_text("utf-8")
    shown = set(re.findall(r'<img src="([^"]+)"', page))
    assert shown == {path.name for path in folder.glob("*.png")}
    expected = {f"{name}.png" for name in ("Scores_by_level", "Precision_and_recall", "ROC")}
    assert expected | {"Distances.png"} < shown
    assert sum("_Nearest_" in name for name in shown) >= 2
    assert "bits &amp; &lt;pieces&gt;" in page and "<pieces>" not in page
    for link in re.findall(r'href="([^"]+)"', page):
        assert (folder / link).is_file()


def test_csv_holds_every_score(results, folder):
    with (folder / "scores.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for result in results:
        found = {r["score"]: float(r["value"]) for r in rows if r["model"] == result.model.name}
        assert found == dict(flattened(result.scores))
    assert "matching/easy/sequences/v_wall" in found


def test_details_are_the_means_of_the_summary(results):
    """A table's columns by level average to the score in the summary."""
    tables = {table.title: table.rows["numbers"] for table in comparison_tables(results)}
    matching = [tables["Matching, mAP"][f"{level}, mean"] for level in ("easy", "hard", "tough")]
    assert sum(matching) / 3 == pytest.approx(tables["Summary"]["matching"])
    verification = tables["Verification, imbalanced, AP"].values()
    assert sum(verification) / 6 == pytest.approx(tables["Summary"]["verification"])
    bars = results[0].plots.bars
    summary = results[0].summary
    flat = [tables["Matching, mAP"][f"{level}, flat mean"] for level in ("easy", "hard", "tough")]
    assert sum(flat) / 3 == pytest.approx(summary["matching, flat"])
    shown = [value for name, value in summary.items() if name != "matching, flat"]
    assert [bar.value for bar in bars.values()] == shown


def test_protocols_that_differ_are_all_shown(tmp_path):
    first, second = ubc_result("one", 0.1, None), ubc_result("two", 0.2, None)
    assert protocols([first, second]) == ["p."]
    other = dataclasses.replace(second, protocol="q")
    assert protocols([first, other]) == ["one: p.", "two: q."]
    other = dataclasses.replace(other, seen="two was trained on liberty.")
    assert protocols([first, other]) == ["one: p.", "two: q.", other.seen]
    folder = write_report([first, other], tmp_path)
    for name in ("scores.md", "index.html"):
        text = (folder / name).read_text("utf-8")
        assert "one: p." in text and "two: q." in text and other.seen in text


def test_markdown_compares_the_models(results, folder):
    text = (folder / "scores.md").read_text("utf-8")
    matching = f"{100 * results[0].summary['matching']:.2f}"
    assert "| model | verification | matching | matching, flat | retrieval |" in text
    assert re.search(rf"^\| numbers \|.* {matching} \|", text, re.MULTILINE)


def test_ubc_has_the_papers_table():
    titles = [table.title for table in comparison_tables([ubc_result("pixels", 0.5, None)])]
    assert "FPR95 by training and test set" in titles


@pytest.mark.parametrize(("sizes", "drawn"), [((512, 1024), True), ((512, None), False)])
def test_batch_sizes_are_plotted_where_known(tmp_path, sizes, drawn):
    results = [ubc_result(f"m{place}", 0.1, size) for place, size in enumerate(sizes)]
    folder = write_report(results, tmp_path)
    assert (folder / "FPR95_over_batch_size.png").is_file() == drawn


def test_no_report_replaces_another_measurement(tmp_path):
    """Other splits, other models, other scores: only a repetition takes the place of a report."""
    sequences = [",".join(f"v_{n}_{i}" for i in range(99)) for n in "ab"]
    for split in ("notredame", "yosemite", *sequences):
        write_report([ubc_result("m", 0.1, None, split)], tmp_path)
    assert len(list(tmp_path.iterdir())) == 4
    first, again, other, both, better = (
        write_report(results, tmp_path / "models")
        for results in (
            [ubc_result("m", 0.1, None)],
            [ubc_result("m", 0.1, None)],
            [ubc_result("n", 0.1, None)],
            [ubc_result("m", 0.1, None), ubc_result("n", 0.1, None)],
            [ubc_result("m", 0.2, None)],
        )
    )
    assert first == again == both
    assert [first.name, other.name, better.name] == [
        "ubc-liberty",
        "ubc-liberty-2",
        "ubc-liberty-3",
    ]
    assert {path.name for path in first.glob("*.json")} == {"m.json", "n.json"}


def test_models_of_similar_names_keep_their_records_and_pictures(results, tmp_path):
    models = [dataclasses.replace(results[0].model, name=name) for name in ("a b", "a_b")]
    folder = write_report([dataclasses.replace(results[0], model=m) for m in models], tmp_path)
    records = [json.loads(path.read_text("utf-8")) for path in folder.glob("*.json")]
    assert sorted(record["model"] for record in records) == ["a b", "a_b"]
    shown = re.findall(r'<img src="([^"]+)"', (folder / "index.html").read_text("utf-8"))
    assert sorted(shown) == sorted(path.name for path in folder.glob("*.png"))
    with pytest.raises(ValueError, match="different names"):
        write_report([results[0], results[0]], tmp_path)


def test_a_failed_report_leaves_the_old_one(tmp_path, monkeypatch):
    results = [ubc_result(f"m{size}", 0.1, size) for size in (512, 1024)]
    folder = write_report(results[:1], tmp_path)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_):
        raise RuntimeError("no plot today")

    monkeypatch.setattr("doap_tf.drawing.plots.draw_over_batch_size", fail)
    for place in (tmp_path, tmp_path / "new"):
        with pytest.raises(RuntimeError, match="no plot"):
            write_report(results, place)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {folder.name, "new"}
    assert not list((tmp_path / "new").iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written below .*file"):
        write_report([ubc_result("m", 0.5, None)], tmp_path / "file")


def test_a_score_that_is_no_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        write_report([ubc_result("m", float("nan"), None)], tmp_path)
    assert not list(tmp_path.iterdir())


def test_results_of_two_benchmarks_do_not_share_a_report(results, tmp_path):
    with pytest.raises(ValueError, match="same benchmark"):
        write_report([results[0], ubc_result("m", 0.5, None)], tmp_path)
