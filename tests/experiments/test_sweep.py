import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from doap_tf.data import PatchGroups

REPOSITORY = pathlib.Path(__file__).parents[2]
PLANS = sorted((REPOSITORY / "experiments").glob("*.json"))


def sweep(folder, *flags):
    return subprocess.run(
        [
            sys.executable,
            "experiments/sweep.py",
            f"--plan={folder / 'plan.json'}",
            f"--groups={folder}",
            f"--results={folder / 'runs.jsonl'}",
            *flags,
        ],
        cwd=REPOSITORY,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )


def runs(folder):
    return [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 256, [16, 1, 32, 32])
    views = np.clip(places + rng.normal(0, 40, [16, 16, 32, 32]), 0, 255).astype(np.uint8)
    PatchGroups.from_arrays(
        views.reshape(-1, 32, 32),
        group=np.repeat(np.arange(16), 16),
        sequence=np.repeat([0, 1, 2, 3], 4 * 16),
        sequence_names=["one", "two", "three", "four"],
    ).save(tmp_path / "places")
    common = {
        "groups": ["places"],
        "weights": [1.0],
        "validation": ["places"],
        "test": ["places"],
        "sampler": "groups",
        "views": 2,
        "batch_size": 16,
        "steps": 3,
        "width": 0.125,
        "dimension": 16,
        "learning_rates": [1e-9, 0.5],
    }
    plan = {
        "experiment": "tiny",
        "seeds": [0, 1],
        "common": common,
        "variants": {
            "ap": {},
            "hardest": {
                "loss": "hardest_in_batch",
                "sampler": "same_sequence",
                "sequence_share": 1.0,
                "learning_rates": [0.5],
            },
            "mined": {"sampler": "sequence_pairs", "same_sequence": "mined", "learning_rates": [1]},
        },
    }
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    return tmp_path


@pytest.mark.slow
def test_rates_are_tuned_with_one_seed_and_runs_are_not_repeated(folder):
    first = sweep(folder, "--variants=ap", f"--networks={folder / 'networks'}")
    assert first.returncode == 0, first.stderr
    tuned = runs(folder)
    assert [(run["learning_rate"], run["seed"]) for run in tuned[:2]] == [(1e-9, 0), (0.5, 0)]
    scores = [run["scores"]["validation"]["matching_map"] for run in tuned]
    best = tuned[int(np.argmax(scores[:2]))]["learning_rate"]
    assert [(run["learning_rate"], run["seed"]) for run in tuned[2:]] == [(best, 1)]
    assert len(list((folder / "networks").glob("*.keras"))) == 3
    assert {"matching_map", "retrieval_map", "fpr95"} <= set(tuned[0]["scores"]["test"])

    again = sweep(folder)
    assert again.returncode == 0, again.stderr
    assert runs(folder)[:3] == tuned
    assert [run["variant"] for run in runs(folder)] == ["ap"] * 3 + ["hardest"] * 2 + ["mined"] * 2
    assert list((folder / "places").glob("mined-*.npz"))


def test_an_unknown_variant_is_named(folder):
    ran = sweep(folder, "--variants=triplet")
    assert ran.returncode == 2
    assert "has no variant 'triplet'; it has ap, hardest, mined" in ran.stderr


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_plans_hold_settings_that_exist(path):
    from doap_tf.training.config import TrainingConfig

    plan = json.loads(path.read_text())
    assert plan["experiment"] == path.stem
    for variant in plan["variants"].values():
        settings = {**plan["common"], **variant}
        for key in ("groups", "weights", "validation", "test", "sampler", "views"):
            settings.pop(key)
        settings.pop("sequence_share", None)
        assert settings.pop("learning_rates")
        TrainingConfig(**settings)
