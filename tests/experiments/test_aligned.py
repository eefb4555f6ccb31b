import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest

from doap_tf.data import PatchGroups
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


def test_rows_are_patches_as_cut_and_aligned(folder):
    done = draw(folder, "--numbers=0,2", "--views=2")
    assert done.returncode == 0, done.stderr
    cut, aligned, zeros = np.split(cv2.imread(str(folder / "aligned.png"), 0), 3)
    assert cut.shape == (44, 6 * 44)
    patches = PatchGroups.load(folder / "groups").patches[[0, 4, 5, 12, 16, 17]]
    tiles = cut.reshape(44, 6, 44).swapaxes(0, 1)
    np.testing.assert_array_equal(tiles[:, 2:, 2:], patches)
    assert (aligned != cut).any() and (zeros != aligned).any()


def test_a_network_without_a_transformer_is_refused(folder):
    done = draw(folder, "--model=doap-mobile-256b")
    assert done.returncode == 2
    expected = "error: --model=doap-mobile-256b is no Keras network with a spatial transformer.\n"
    assert done.stderr.endswith(expected)
