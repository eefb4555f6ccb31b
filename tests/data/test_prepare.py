import dataclasses
import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups, mine_labels
from doap_tf.data.prepare import prepare_groups
from doap_tf.errors import InputError
from doap_tf.patch_generation.groups import GroupSettings, cut_groups
from doap_tf.patch_generation.scenes import find_scenes
from doap_tf.preprocessing import resize_patches
from doap_tf.readers.mosaics import iterate_groups
from tests.features.pictures import photograph
from tests.layouts import write_ubc


def test_photographs_become_groups_of_their_sequences(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("chelsea", "coffee"):
        cv2.imwrite(str(folder / f"{name}.png"), photograph(name))
    command = [sys.executable, "-m", "doap_tf.data.prepare", f"--source={folder}"]
    command += [f"--output={tmp_path / 'groups'}", "--magnification=9", "--max_groups=20"]
    ran = subprocess.run(
        command,
        cwd=pathlib.Path(doap_tf.__file__).parents[1],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    groups = PatchGroups.load(tmp_path / "groups")
    settings = GroupSettings(patch_size=32, magnification=9.0, max_groups=20)
    cut = [cut_groups(scene, settings).patches for scene in find_scenes(folder)]
    np.testing.assert_array_equal(groups.patches, np.concatenate(cut).reshape(-1, 32, 32))
    assert groups.magnification == 9
    assert groups.sequence_names == ("chelsea.png", "coffee.png")
    np.testing.assert_array_equal(groups.group_sequence, np.repeat([0, 1], [len(c) for c in cut]))
    assert f"{len(groups)} patches of 32×32 in {groups.group_count} groups" in ran.stdout


def test_mosaics_become_resized_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("doap_tf.data.prepare._BLOCK", 7)
    folder = tmp_path / "liberty"
    write_ubc(folder)
    groups = prepare_groups(folder, "mosaics", tmp_path / "groups", GroupSettings(patch_size=42))
    for number, group in enumerate(iterate_groups(folder)):
        expected = np.rint(resize_patches(group.patches[..., np.newaxis], 42)[..., 0])
        np.testing.assert_array_equal(groups.patches[groups.rows_of(number)], expected)
    assert groups.group_count == number + 1
    assert (groups.sequence == -1).all()
    assert groups.magnification is None


def test_labels_are_mined_in_large_patches_and_kept(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("chelsea", "coffee"):
        cv2.imwrite(str(folder / f"{name}.png"), photograph(name))
    settings = GroupSettings(patch_size=32, max_groups=20)
    groups = prepare_groups(folder, "photos", tmp_path / "groups", settings, label_mining=True)
    large = prepare_groups(
        folder, "photos", tmp_path / "large", dataclasses.replace(settings, patch_size=64)
    )
    kept, expected = mine_labels(groups), mine_labels(large)
    np.testing.assert_array_equal(kept.cluster, expected.cluster)
    np.testing.assert_array_equal(kept.far_apart, expected.far_apart)
    assert all(path.is_file() for path in groups.directory.iterdir())


def test_mosaics_have_no_sequences_to_mine(tmp_path):
    with pytest.raises(InputError, match="--label_mining wants groups of sequences"):
        prepare_groups(tmp_path, "mosaics", tmp_path / "groups", GroupSettings(), label_mining=True)


def test_what_exists_is_not_overwritten(tmp_path):
    with pytest.raises(InputError, match="exists already: remove it or choose another --output"):
        prepare_groups(tmp_path, "photos", tmp_path, GroupSettings())


def test_an_unknown_kind_is_named(tmp_path):
    with pytest.raises(InputError, match="photos, aligned, sequences, mosaics, not 'films'"):
        prepare_groups(tmp_path, "films", tmp_path / "groups", GroupSettings())
