import json
import pathlib
import re
import subprocess
import sys

import pytest

REPOSITORY = pathlib.Path(__file__).parents[2]
RECORDS = [
    pytest.param(path, marks=pytest.mark.slow if path.stat().st_size > 80_000 else ())
    for path in sorted((REPOSITORY / "docs/experiments").glob("*.jsonl.gz"))
]


def report(results):
    command = [sys.executable, "experiments/report.py", f"--results={results}"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


def record(run, seed, score, **config):
    return json.dumps(
        {
            "run": run,
            "flags": f"--flagfile=flags/photos.cfg --seed={seed}",
            "config": {"seed": seed, "width": 1.0, "validate_every": 100 + seed, **config},
            "lists": f"GroupSampler(batch_size=64, seed={seed}, views=4)",
            "environment": {"git_revision": None if run == "unknown" else "abc123"},
            "best": {"step": 9, "matching_map": score, "fpr95": score / 10},
        }
    )


def test_seeds_of_a_recipe_share_a_row_and_repetitions_do_not(tmp_path):
    records = [record("b", 1, 0.7), record("wide", 0, 0.8, width=2.0), record("a", 0, 0.6)]
    records += [record("again", 1, 0.5)]
    (tmp_path / "records.jsonl").write_text("\n".join(records) + "\n")
    done = report(tmp_path / "records.jsonl")
    assert done.returncode == 0, done.stderr
    flags = "--flagfile=flags/photos.cfg"
    assert done.stdout.splitlines()[2:] == [
        f"| 3, 1 | a, b | {flags} | 0, 1 | 0.600, 0.700 | 0.060, 0.070 |",
        f"| 2 | wide | {flags} | 0 | 0.800 | 0.080 |",
        f"| 4 | again | {flags} | 1 | 0.500 | 0.050 |",
    ]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_of_the_pages_are_printed(path):
    done = report(path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\| \d+\.\d", done.stdout)


def test_image_pairs_are_compared_pair_by_pair(tmp_path):
    def line(model, pair, right):
        scores = {"right": [right], "places": [right // 2], "matches": 10 * (1 + pair)}
        about = {"tolerances": [3.0], "keypoints": 80, "git_revision": "abc123"}
        return json.dumps({"model": model, "pair": f"graf/{pair}", **scores, **about})

    lines = [
        line(model, pair, right + 2 * pair)
        for model, right in (("a", 4), ("b", 6))
        for pair in (2, 3)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join([*lines, line("part", 2, 9)]) + "\n")
    done = report(tmp_path / "pairs.jsonl")
    assert done.returncode == 0, done.stderr
    places, shares = done.stdout.split("share of right matches")
    assert "| a | 4.5 (4.0–5.0) | +0.0 (+0.0 … +0.0) |" in places
    assert "| b | 5.5 (5.0–6.0) | +1.0 (+1.0 … +1.0) |" in places
    assert "| b | 0.317 (0.300–0.333) | +0.058 (+0.050 … +0.067) |" in shares
    assert "part" not in done.stdout


def test_a_record_without_a_revision_is_refused(tmp_path):
    records = [record("a", 0, 0.6), record("unknown", 1, 0.7)]
    (tmp_path / "records.jsonl").write_text("\n".join(records) + "\n")
    done = report(tmp_path / "records.jsonl")
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("error: line 2 of") and "git_revision" in done.stderr


def test_no_results_are_one_line(tmp_path):
    done = report(tmp_path / "none.jsonl")
    assert done.returncode != 0
    assert done.stderr.startswith("error: cannot read --results=")
