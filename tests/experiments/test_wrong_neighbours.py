import pathlib
import subprocess
import sys

import cv2
import numpy as np

from doap_tf.data import PatchGroups

REPOSITORY = pathlib.Path(__file__).parents[2]
SIDE, GROUPS, VIEWS = 32, 40, 16


def test_a_turned_target_is_sorted_as_an_angle(tmp_path):
    rng = np.random.default_rng(0)
    places = cv2.resize(
        rng.integers(0, 256, [6, 6, GROUPS]).astype(np.float32), (SIDE, SIDE), interpolation=2
    )
    places = np.clip(places, 0, 255).transpose(2, 0, 1)
    targets = places.copy()
    turn = cv2.getRotationMatrix2D((SIDE / 2 - 0.5, SIDE / 2 - 0.5), 20, 1)
    targets[0] = cv2.warpAffine(places[0], turn, (SIDE, SIDE), borderMode=cv2.BORDER_REPLICATE)
    targets[1] = 0.7 * places[0] + 0.3 * places[2]  # what the first is mistaken for
    views = np.stack([places, *[targets] * (VIEWS - 1)], axis=1)
    views = np.clip(views + rng.normal(0, 2, views.shape), 0, 255).astype(np.uint8)
    groups = PatchGroups.from_arrays(
        views.reshape(-1, SIDE, SIDE),
        np.repeat(np.arange(GROUPS), VIEWS),
        np.zeros(GROUPS * VIEWS, np.int32),
        sequence_names=["one"],
    )
    groups.save(tmp_path / "groups")
    command = [
        sys.executable,
        "experiments/wrong_neighbours.py",
        f"--groups={tmp_path / 'groups'}",
        "--models=pixels",
        f"--output={tmp_path / 'wrong.png'}",
    ]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names, _, values = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()
    )
    shares = dict(zip(names, values, strict=True))
    assert shares["wrong"] == f"{2 / GROUPS:.3f}"  # the first, and the one made of it
    assert shares["angle"] == "0.500"
    assert cv2.imread(str(tmp_path / "wrong.png")) is not None
