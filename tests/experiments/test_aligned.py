import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups
from doap_tf.drawing.patches import draw_alignment
from tests import layouts

REPOSITORY = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aligned")
    views = np.stack([layouts.views(np.random.default_rng(n), 6, 42) for n in range(3)])
    groups = PatchGroups.from_arrays(views.reshape(-1, 42, 42), np.repeat(np.arange(3), 6))
    groups.save(folder / "groups")
    return folder


def draw(folder, *flags):
    command = [sys.executable, "experiments/aligned.py", f"--groups={folder / 'groups'}", *flags]
    command += [f"--output={folder / 'aligned.png'}"]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.slow
def test_columns_are_the_first_and_last_patches_of_groups(folder):
    done = draw(folder, "--numbers=0,2", "--views=2")
    assert done.returncode == 0, done.stderr
    patches = PatchGroups.load(folder / "groups").patches[[0, 4, 5, 12, 16, 17]]
    expected = draw_alignment(doap_tf.from_pretrained("doap-st-128"), patches, zoom=1)
    picture = cv2.imread(str(folder / "aligned.png"), cv2.IMREAD_GRAYSCALE)
    np.testing.assert_array_equal(picture, expected)


def test_a_network_without_a_transformer_is_refused(folder):
    done = draw(folder, "--model=doap-mobile-256b")
    assert done.returncode == 2 and "doap-mobile-256b expects 32" in done.stderr
