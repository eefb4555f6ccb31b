"""Folders in HPatches' layout: splits, single sequences, and everything that can be wrong."""

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import PatchSequences
from tests import layouts


@pytest.fixture
def folder(tmp_path):
    layouts.write_hpatches(tmp_path, ["i_lamp", "v_wall"], positions=3)
    return tmp_path


def test_all_sequences_and_a_single_one(folder):
    assert PatchSequences(folder).lengths == {"i_lamp": 3, "v_wall": 3}
    single = PatchSequences(folder / "v_wall")
    assert single.lengths == {"v_wall": 3}
    assert single.patches("v_wall", "t5").shape == (3, 65, 65)
    assert single.content("v_wall", "t5") == PatchSequences(folder).content("v_wall", "t5")
    assert single.content("v_wall", "t5") != single.content("v_wall", "t4")


def test_missing_sequences_of_a_split_are_named(folder):
    with pytest.raises(InputError, match=r"lacks 40 of the 40 sequences of split 'a'.*i_aj"):
        PatchSequences(folder, "a")


def test_unknown_split_is_named(folder):
    with pytest.raises(InputError, match="unknown HPatches split 'z'"):
        PatchSequences(folder, "z")


def cut_short(path):
    cv2.imwrite(str(path), cv2.imread(str(path), 0)[:130])


def too_narrow(path):
    cv2.imwrite(str(path), np.zeros((130, 64), np.uint8))


def no_multiple(path):
    cv2.imwrite(str(path), np.zeros((100, 65), np.uint8))


def no_image(path):
    path.write_bytes(b"not an image")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (cut_short, r"t3\.png has 2 patches, but ref\.png has 3"),
        (too_narrow, r"t3\.png is 64×130 pixels"),
        (no_multiple, r"t3\.png is 65×100 pixels"),
        (no_image, r"t3\.png cannot be read as an image"),
        (lambda path: path.unlink(), r"v_wall lacks t3\.png"),
    ],
    ids=["short", "narrow", "multiple", "image", "missing"],
)
def test_bad_strips_are_named(folder, spoil, named):
    spoil(folder / "v_wall" / "t3.png")
    with pytest.raises(InputError, match=named):
        PatchSequences(folder)


def test_folders_without_sequences(tmp_path):
    with pytest.raises(InputError, match="holds no sequence folders"):
        PatchSequences(tmp_path)
    with pytest.raises(InputError, match="nowhere"):
        PatchSequences(tmp_path / "nowhere")
