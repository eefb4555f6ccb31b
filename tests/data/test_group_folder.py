"""Folders of patch groups: written whole or not at all, and read or refused in one line."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups
from doap_tf.errors import InputError
from tests.data.labelled import assert_same, with_labels


def test_save_and_load(make_groups, tmp_path):
    groups = with_labels(make_groups([3, 1, 2], [0, 1, 1]), clusters=4)
    saved = groups.save(tmp_path / "groups")
    loaded = PatchGroups.load(tmp_path / "groups")
    for other in (saved, loaded):
        assert_same(groups, other)
        assert isinstance(other.patches, np.memmap)
        assert other.directory == tmp_path / "groups"
        assert other.content_hash() == groups.content_hash()
    assert [path.name for path in tmp_path.iterdir()] == ["groups"]


def test_folders_of_earlier_versions_are_read(make_groups, tmp_path):
    """They kept clusters with the other labels, and the table in a file of its own."""
    groups = with_labels(make_groups([3, 1, 2], [0, 1, 1]), clusters=4)
    folder = groups.save(tmp_path / "groups").directory
    (folder / "mined.npz").unlink()
    assert (PatchGroups.load(folder).cluster == -1).all()
    np.save(folder / "labels.npy", groups.label_table)
    np.save(folder / "far_apart.npy", groups.far_apart)
    assert_same(PatchGroups.load(folder), groups)


def test_only_patch_groups_are_replaced(make_groups, tmp_path):
    groups = make_groups([3, 1, 2], [0, 1, 1])
    folder = tmp_path / "groups"
    folder.mkdir()
    groups.save(folder)
    groups.save(folder)
    (folder / "groups.json").unlink()
    (tmp_path / "thesis.txt").write_text("mine")
    for path in (folder, tmp_path / "thesis.txt"):
        with pytest.raises(InputError, match="exists and holds no patch groups: choose another"):
            groups.save(path)
    assert (folder / "patches.npy").exists() and (tmp_path / "thesis.txt").read_text() == "mine"


def test_loading_imports_neither_tfds_nor_opencv_nor_tensorflow(make_groups, tmp_path):
    make_groups([2, 2]).save(tmp_path / "groups")
    code = f"""
import sys
for name in ("tensorflow", "tensorflow_datasets", "cv2"):
    sys.modules[name] = None  # importing it raises
from doap_tf.data import GroupSampler, PatchGroups
groups = PatchGroups.load({str(tmp_path / "groups")!r})
print(groups.labels(next(GroupSampler(groups, 4))).shape, groups.patches.sum())
"""
    root = pathlib.Path(doap_tf.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(4, 3)")


def test_loading_what_is_missing_or_damaged(make_groups, tmp_path):
    with pytest.raises(InputError, match=r"no patch groups in .*groups.json is missing"):
        PatchGroups.load(tmp_path)

    folder = tmp_path / "groups"
    make_groups([2, 2]).save(folder)
    patches = (folder / "patches.npy").read_bytes()
    (folder / "patches.npy").write_bytes(patches[:-10])
    with pytest.raises(InputError, match=r"groups in .* cannot be read"):
        PatchGroups.load(folder)
    (folder / "patches.npy").write_bytes(patches)
    PatchGroups.load(folder)

    description = json.loads((folder / "groups.json").read_text())
    for change in ({"magnification": "14"}, {"magnification": float("nan")}, {"source": 5}):
        (folder / "groups.json").write_text(json.dumps(description | change))
        with pytest.raises(InputError, match=rf"groups: {next(iter(change))} must be"):
            PatchGroups.load(folder)

    np.save(folder / "labels.npy", np.zeros([3, 3], np.int32))
    (folder / "groups.json").write_text(json.dumps(description))
    with pytest.raises(InputError, match=r"groups: group must be int32 \[4\]"):
        PatchGroups.load(folder)

    (folder / "groups.json").write_text(json.dumps(description | {"format": 99}))
    with pytest.raises(InputError, match="format is 99"):
        PatchGroups.load(folder)


def test_no_permission_to_save(make_groups, read_only_folder):
    with pytest.raises(InputError, match=r"cannot write patch groups .*Permission denied"):
        make_groups([2, 2]).save(read_only_folder / "groups")
    assert not any(read_only_folder.iterdir())


def test_no_room_to_save_keeps_the_older_folder(make_groups, tmp_path, small_disk):
    older = make_groups([2, 2]).save(tmp_path / "groups")
    small_disk(1000)
    with pytest.raises(InputError, match="cannot write patch groups"):
        make_groups([2] * 100).save(tmp_path / "groups")
    assert [path.name for path in tmp_path.iterdir()] == ["groups"]
    assert_same(PatchGroups.load(tmp_path / "groups"), older)
