import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest

from doap_tf.data import PatchGroups
from doap_tf.metrics import matching_average_precision
from doap_tf.training.validation import Validation
from doap_tf.zoo import load_descriptor
from tests import layouts

REPOSITORY = pathlib.Path(__file__).parents[2]


class SideBySide:
    norm = cv2.NORM_L2

    def describe(self, patches):
        return np.hstack(
            [load_descriptor("pixels").describe(patches), load_descriptor("sift").describe(patches)]
        )


def score(groups, models):
    return subprocess.run(
        [sys.executable, "experiments/score.py", f"--groups={groups}", f"--models={models}"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )


def test_scores_are_those_of_validation(tmp_path):
    views = np.stack([layouts.views(np.random.default_rng(n), 3, 65) for n in range(30)])
    groups = PatchGroups.from_arrays(views.reshape(-1, 65, 65), np.repeat(np.arange(30), 3))
    groups.save(tmp_path / "groups")
    done = score(tmp_path / "groups", "pixels,doap-mobile-256b,pixels+sift")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    for name, descriptor in {
        "pixels": load_descriptor("pixels"),
        "pixels+sift": SideBySide(),
    }.items():
        expected = Validation(groups).evaluate(descriptor).scores["matching_map"]
        assert lines[name][1] == f"{expected:.3f}"
    assert float(lines["doap-mobile-256b"][1]) > 0.5


def test_folders_of_several_magnifications_are_pooled(tmp_path):
    views = np.stack([layouts.views(np.random.default_rng(n), 3, 65) for n in range(30)])
    flat, numbers = views.reshape(-1, 65, 65), np.repeat(np.arange(30), 3)
    narrow = np.ascontiguousarray(flat[::-1, 24:40, 24:40])  # misleads
    for name, patches in (("wide", flat), ("narrow", narrow)):
        PatchGroups.from_arrays(patches, numbers).save(tmp_path / name)
    done = score(f"{tmp_path / 'wide'}+{tmp_path / 'narrow'},{tmp_path / 'wide'}", "rootsift")
    assert done.returncode == 0, done.stderr
    pooled, single = (
        float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("rootsift")
    )
    rows = [load_descriptor("rootsift").describe(p) for p in (flat, narrow)]
    mean = sum(rows)
    mean /= np.linalg.norm(mean, axis=1, keepdims=True)
    expected = np.mean(
        [matching_average_precision(mean[0::3], mean[view::3], cv2.NORM_L2) for view in (1, 2)]
    )
    assert pooled == pytest.approx(expected, abs=6e-4)
    assert pooled < single


def test_an_ensemble_has_one_kind_of_distance(tmp_path):
    done = score(tmp_path / "groups", "doap-128+doap-256b")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "doap-128+doap-256b: an ensemble is of floats or of bits, not of both.\n"
    )
