import pathlib
import subprocess
import sys

import numpy as np

from doap_tf.data import PatchGroups
from doap_tf.descriptors import load
from doap_tf.training.validation import Validation
from tests import layouts

REPOSITORY = pathlib.Path(__file__).parents[2]


def test_scores_are_those_of_validation(tmp_path):
    views = np.stack([layouts.views(np.random.default_rng(n), 3, 65) for n in range(30)])
    groups = PatchGroups.from_arrays(views.reshape(-1, 65, 65), np.repeat(np.arange(30), 3))
    groups.save(tmp_path / "groups")
    done = subprocess.run(
        [
            sys.executable,
            "experiments/score.py",
            f"--groups={tmp_path / 'groups'}",
            "--models=pixels,doap-mobile-256b",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    expected = Validation(groups).evaluate(load("pixels")).scores["matching_map"]
    assert lines["pixels"][1] == f"{expected:.3f}"
    assert float(lines["doap-mobile-256b"][1]) > 0.5
