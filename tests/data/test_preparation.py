"""From datasets by name to patch groups, by prepare_main.py and by the library."""

import dataclasses
import pathlib
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups, mine_labels
from doap_tf.data.preparation import DatasetSource
from doap_tf.errors import InputError
from doap_tf.patch_generation.groups import GroupSettings, cut_groups
from doap_tf.patch_generation.scenes import find_scenes, split_scenes
from doap_tf.preprocessing import resize_patches
from doap_tf.readers.mosaics import iterate_groups
from tests import layouts
from tests.features.pictures import photograph


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("chelsea", "coffee"):
        cv2.imwrite(str(folder / f"{name}.png"), photograph(name))
    return folder


def run(*arguments):
    return subprocess.run(
        [sys.executable, "prepare_main.py", *arguments],
        cwd=pathlib.Path(doap_tf.__file__).parents[1],
        capture_output=True,
        text=True,
    )


def cut(scenes, settings):
    groups = [cut_groups(scene, settings).patches for scene in scenes]
    return np.concatenate(groups).reshape(-1, settings.patch_size, settings.patch_size)


def test_the_command_cuts_photographs_quietly(photos, tmp_path):
    ran = run(
        f"--source={photos}",
        f"--output={tmp_path / 'groups'}",
        f"--data_dir={tmp_path / 'data'}",
        "--max_groups=20",
        f"--preview={tmp_path / 'sheet.png'}",
    )
    assert ran.returncode == 0, ran.stderr
    groups = PatchGroups.load(tmp_path / "groups")
    settings = GroupSettings(patch_size=32, magnification=14.0, max_groups=20)
    np.testing.assert_array_equal(groups.patches, cut(find_scenes(photos), settings))
    assert groups.magnification == 14
    assert groups.sequence_names == ("chelsea.png", "coffee.png")
    assert set(groups.group_sizes) == {16}
    assert str(settings) in groups.source
    preparing, hidden, written, drawn = ran.stdout.splitlines()
    assert "2 scenes of kind photos, 32 pixels" in preparing
    assert re.fullmatch(r"places are not shown in \d+\.\d% of the views \(bound 0\.4\)", hidden)
    assert f"{len(groups)} patches" in written and f"{groups.group_count} groups" in written
    assert written.endswith("2 sequences, magnification 14")
    assert "sheet.png" in drawn
    assert ran.stderr == ""


def test_the_command_says_whose_photographs_it_takes():
    ran = run("--output=.")
    assert ran.stdout.startswith("photographs: those of scikit-image; --source=FOLDER_OR_GLOB")
    assert len(ran.stdout.splitlines()) == 1


def test_the_command_draws_a_folder_that_exists(make_groups, tmp_path):
    make_groups([3] * 9).save(tmp_path / "groups")
    sheet = tmp_path / "pictures" / "sheet.png"
    ran = run(f"--groups={tmp_path / 'groups'}", f"--preview={sheet}")
    assert ran.returncode == 0, ran.stderr
    assert "9 of 9 groups" in ran.stdout
    assert cv2.imread(str(sheet), cv2.IMREAD_GRAYSCALE).std() > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--groups=/nowhere", "--preview=a.png"], "no patch groups in /nowhere"),
        ([], "give --output=FOLDER"),
        (["--groups=g"], "--preview"),
        (["--groups=g", "--preview=a.jpg"], "--preview=a.jpg must end in .png"),
        (
            ["--output=new", "--dataset=mnist"],
            "unknown dataset 'mnist'; known are colmap_patches, ",
        ),
        (["--output=new", "--config=liberty"], "config is not an option of photo_patches"),
        (["--output=new", "--beam_options=--runner=Nobody"], "Beam "),
        (["--output=new", "--dataset=rome_patches", "--kind=photos"], "kind is not an option"),
        (["--output=new", "--kind=films", "--source=."], "unknown kind 'films'"),
        (["--output=.", "--source=."], ". exists already"),
        (
            ["--output=new", "--dataset=oxford_affine", "--source=."],
            "oxford_affine/oxford/1.0.0 does not hold groups of patches",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    ran = run(*arguments)
    assert ran.returncode == 2
    assert message in ran.stderr and len(ran.stderr.splitlines()) == 1
    assert not pathlib.Path("new").exists()


def test_mosaics_become_resized_groups_in_their_order(tmp_path):
    folder = tmp_path / "liberty"
    layouts.write_ubc(folder)
    source = DatasetSource("ubc_phototour", {"source": folder}, tmp_path / "data")
    groups = source.write(tmp_path / "groups", 42)
    for number, group in enumerate(iterate_groups(folder)):
        expected = np.rint(resize_patches(group.patches[..., np.newaxis], 42)[..., 0])
        np.testing.assert_array_equal(groups.patches[groups.rows_of(number)], expected)
    assert groups.group_count == number + 1
    assert (groups.sequence == -1).all()
    assert groups.magnification == 6


def test_labels_are_mined_in_large_patches_and_kept(photos, tmp_path):
    source = DatasetSource("photo_patches", {"source": photos, "max_groups": 20}, tmp_path / "data")
    groups = source.write(tmp_path / "groups", 32, label_mining=True)
    kept = mine_labels(groups)
    expected = mine_labels(source.write(tmp_path / "large", 64))
    np.testing.assert_array_equal(kept.cluster, expected.cluster)
    np.testing.assert_array_equal(kept.far_apart, expected.far_apart)
    assert all(path.is_file() for path in groups.directory.iterdir())


def test_mosaics_have_no_sequences_to_mine(tmp_path):
    layouts.write_ubc(tmp_path / "liberty", groups=10)
    source = DatasetSource("ubc_phototour", {"source": tmp_path / "liberty"}, tmp_path / "data")
    with pytest.raises(InputError, match="no sequences to mine"):
        source.write(tmp_path / "groups", 32, label_mining=True)
    assert not (tmp_path / "groups").exists()


def test_photographs_for_training_are_cut_at_the_size_of_the_network(photos, tmp_path):
    cv2.imwrite(str(photos / "rocket.png"), photograph("rocket"))
    options = {"source": photos, "magnification": 7.0, "max_groups": 10}
    source = DatasetSource("photo_patches", options, tmp_path / "data", validation_fraction=0.3)
    loaded = source.load(32)
    scenes = split_scenes(find_scenes(photos), 0.3)
    for groups, members in zip(loaded, scenes, strict=True):
        settings = GroupSettings(patch_size=32, magnification=7.0, max_groups=10)
        np.testing.assert_array_equal(groups.patches, cut(members, settings))
        assert groups.magnification == 7
    everything = dataclasses.replace(source, validation_fraction=0.0)
    train, validation = everything.load(32)
    assert train.sequence_names == ("chelsea.png", "coffee.png", "rocket.png")
    assert validation is None is everything.load_validation(32)
    large = source.load_validation(65)
    settings = GroupSettings(patch_size=65, magnification=7.0, max_groups=10)
    np.testing.assert_array_equal(large.patches, cut(scenes[1], settings))


def test_hpatches_holds_out_sequences_of_the_chosen_split(tmp_path):
    names = ["i_one", "v_two", "v_three"]
    written = layouts.write_hpatches(tmp_path / "hpatches", names, positions=3)
    options = {"source": tmp_path / "hpatches", "split": "all"}
    source = DatasetSource("hpatches", options, tmp_path / "data", validation_fraction=0.3)
    train, validation = source.load(65)
    assert sorted(train.sequence_names + validation.sequence_names) == sorted(names)
    (name,) = validation.sequence_names
    np.testing.assert_array_equal(validation.patches, written[name].reshape(-1, 65, 65))
    everything, nothing = dataclasses.replace(source, validation_fraction=0.0).load(65)
    assert sorted(everything.sequence_names) == sorted(names) and nothing is None
    assert everything.magnification == 5
    written = source.write(tmp_path / "groups", 65).hold_out(0.3, seed=0)
    assert [part.content_hash() for part in written] == [
        train.content_hash(),
        validation.content_hash(),
    ]
    again = source.load_validation(32)
    assert again.sequence_names == validation.sequence_names and again.size == 32
    with pytest.raises(InputError, match="76 sequences of HPatches split 'a'"):
        DatasetSource("hpatches", {"source": options["source"]}, tmp_path / "data").load(32)


def test_one_photograph_cannot_be_validated_on(photos, tmp_path):
    (photos / "coffee.png").unlink()
    source = DatasetSource("photo_patches", {"source": photos}, tmp_path / "data")
    with pytest.raises(InputError, match="single scene; at least two are required"):
        source.load(32)
