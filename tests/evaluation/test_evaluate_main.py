"""The command: exit codes, one line for bad input, identical numbers in two runs."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests import layouts

ROOT = pathlib.Path(__file__).parents[2]


def run(*flags, code=None):
    start = ["-c", code] if code else ["evaluate_main.py"]
    return subprocess.run(
        [sys.executable, *start, *flags], cwd=ROOT, capture_output=True, text=True
    )


def test_two_runs_give_identical_files(known, tmp_path):
    for place in ("first", "second"):
        done = run(
            "--model=pixels,orb",
            "--benchmark=hpatches",
            "--split=all",
            f"--data_dir={known[0]}",
            f"--report_dir={tmp_path / place}",
            "--tasks=matching,retrieval",
        )
        assert done.returncode == 0, done.stderr
        assert "| pixels |" in done.stdout and "index.html" in done.stdout
    first, second = (tmp_path / place / "hpatches-all" for place in ("first", "second"))
    for name in ("pixels.json", "orb.json", "scores.csv", "scores.md", "index.html"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert json.loads((first / "orb.json").read_text("utf-8"))["weights_sha256"] is None
    assert {path.name for path in (tmp_path / "first").iterdir()} == {"hpatches-all", "cache"}


def test_magnification_of_oxford(tmp_path):
    """Warns of every model that is evaluated at another than its own; `own` mends it."""
    layouts.write_image_sequences(tmp_path / "data", size=(120, 160))
    flags = [
        "--model=rootsift,beblid",
        "--benchmark=oxford",
        "--detectors=dog",
        f"--data_dir={tmp_path / 'data/graf'}",
        f"--report_dir={tmp_path / 'reports'}",
    ]
    paper, own = run(*flags), run(*flags, "--magnification=own")
    assert (paper.returncode, own.returncode) == (0, 0), paper.stderr + own.stderr
    warnings = [line for line in paper.stderr.splitlines() if "WARNING" in line]
    assert len(warnings) == 2 and "WARNING" not in own.stderr
    for line, name, magnification in zip(
        warnings, ("rootsift", "beblid"), ("5.303×", "6.75×"), strict=True
    ):
        assert name in line and magnification in line and "--magnification=own" in line
        assert (
            f"{name}: dog frames, patches at {magnification} (the descriptor's own)" in own.stdout
        )
    assert paper.stdout.count("patches at 3× (the paper's)") == 1
    for folder, magnification in (("oxford-graf", "3×"), ("oxford-graf-2", "6.75×")):
        record = json.loads((tmp_path / f"reports/{folder}/beblid.json").read_text("utf-8"))
        assert f"patches at {magnification}" in record["protocol"]


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model=sift", "--benchmark=guess"], "benchmark"),
        (["--model=sift", "--benchmark=rome", "--report_dir={}"], "--data_dir"),
        (["--model=sift", "--benchmark=ubc", "--memory_mb=1"], "memory_mb"),
        (
            ["--model=sift", "--benchmark=hpatches", "--data_dir={}", "--report_dir={}"],
            "holds no sequence folders",
        ),
        (
            ["--model=sift", "--benchmark=ubc", "--data_dir={}", "--report_dir={}"],
            "none of the folders liberty, notredame, yosemite",
        ),
        (
            ["--model=none:f", "--benchmark=rome", "--data_dir={}", "--report_dir={}"],
            "no module none",
        ),
        (
            [
                "--model=sift",
                "--benchmark=oxford",
                "--magnification=x",
                "--data_dir=.",
                "--report_dir={}",
            ],
            "--magnification=x must be a number above 0, paper or own",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, flags, named):
    done = run(*(flag.format(tmp_path) for flag in flags))
    assert done.returncode == 2
    assert named in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_interruption_is_exit_code_75(tmp_path):
    code = """
import os, signal
from doap_tf.commands import evaluate
evaluate._evaluate = lambda: os.kill(os.getpid(), signal.SIGTERM)
evaluate.run()
"""
    flags = ["--model=sift", "--benchmark=photos", f"--report_dir={tmp_path}"]
    done = run(*flags, code=code)
    assert done.returncode == 75
    assert "the same command" in done.stderr


def test_evaluation_needs_no_tensorflow():
    code = "import sys, doap_tf.evaluation; print('tensorflow' in sys.modules)"
    assert run(code=code).stdout.strip() == "False"
