import os
import shutil

import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.patch_generation.scenes import Scene, default_scenes, find_scenes, split_scenes


@pytest.fixture
def folder(tmp_path):
    for name in ("b.jpg", "a.PNG", "notes.txt", "deep/er/c.webp", "deep/d.tif"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path / "photos"


def test_a_folder_is_searched_to_the_bottom(folder):
    scenes = find_scenes(folder)
    assert [scene.name for scene in scenes] == ["a.PNG", "b.jpg", "deep/d.tif", "deep/er/c.webp"]
    assert all(scene.kind == "photos" and len(scene.files) == 1 for scene in scenes)
    assert scenes[3].files == (folder / "deep/er/c.webp",)


def test_names_that_are_no_utf8_are_escaped(folder):
    (folder / "b.jpg").rename(folder / os.fsdecode(b"caf\xe9.jpg"))
    (folder / "folder.jpg").mkdir()
    assert [scene.name for scene in find_scenes(f"{folder}/*.jpg")] == [r"caf\xe9.jpg"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.jpg", ["b.jpg"]),
        ("*", ["a.PNG", "b.jpg"]),
        ("**/*.[tw]*", ["deep/d.tif", "deep/er/c.webp"]),
        ("d*p/*", ["deep/d.tif"]),
    ],
)
def test_a_glob_names_scenes_from_its_fixed_folder(folder, pattern, names):
    assert [scene.name for scene in find_scenes(f"{folder}/{pattern}")] == names


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(folder, tmp_path):
    odd = folder.rename(tmp_path / "photos [2024]")
    assert len(find_scenes(odd)) == 4


def test_aligned_images_of_a_folder_are_one_scene(folder):
    scenes = find_scenes(folder, "aligned")
    assert [(scene.name, len(scene.files)) for scene in scenes] == [
        ("deep", 1),
        ("deep/er", 1),
        ("photos", 2),
    ]


def test_sequences_are_folders_with_images_and_homographies(tmp_path):
    for name in ("graf/img1.ppm", "graf/H1to2p", "v_wall/1.ppm", "v_wall/H_1_2", "other/x.ppm"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    for source in (tmp_path, f"{tmp_path}/[gv]*"):
        scenes = find_scenes(source, "sequences")
        assert [scene.name for scene in scenes] == ["graf", "v_wall"]
        assert [file.name for file in scenes[0].files] == ["H1to2p", "img1.ppm"]


@pytest.mark.parametrize("kind", ["photos", "aligned", "sequences"])
def test_an_empty_folder_is_named(tmp_path, kind):
    with pytest.raises(InputError, match=f"{tmp_path.name}.* holds no"):
        find_scenes(tmp_path, kind)


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("nowhere/at all", "photos", "'nowhere/at all' is neither a folder nor a glob"),
        ("nowhere/*.png", "photos", "holds no images"),
        ("nowhere/*", "sequences", "no folder with files matches"),
        ("nowhere", "films", "unknown kind 'films'"),
    ],
)
def test_bad_sources_are_named(source, kind, message):
    with pytest.raises(InputError, match=message):
        find_scenes(source, kind)


def test_default_photographs_come_with_scikit_image():
    train, validation = default_scenes()
    assert len(train) == 10 and len(validation) == 2
    assert not set(train) & set(validation)
    assert all(scene.files[0].is_file() for scene in train + validation)


def scenes_named(names):
    return [Scene(str(name), "photos", ()) for name in names]


def test_split_takes_the_fraction_by_name_alone():
    scenes = scenes_named(range(100))
    train, validation = split_scenes(scenes, 0.2)
    assert len(validation) == 20 and len(train) == 80
    assert train == [scene for scene in scenes if scene not in validation]
    shuffled = [scenes[index] for index in np.random.default_rng(0).permutation(100)]
    assert set(split_scenes(shuffled, 0.2)[1]) == set(validation)
    positions = [int(scene.name) for scene in validation]
    assert min(positions) < 20 and max(positions) > 80


@pytest.mark.parametrize(
    ("count", "fraction", "held_out"), [(1, 0.5, 0), (2, 0.01, 1), (2, 0.99, 1), (9, 0.0, 0)]
)
def test_split_leaves_something_on_both_sides_if_it_can(count, fraction, held_out):
    assert len(split_scenes(scenes_named(range(count)), fraction)[1]) == held_out


def test_split_refuses_impossible_fractions():
    with pytest.raises(InputError, match=r"not 1\.0"):
        split_scenes(scenes_named(range(3)), 1.0)


def test_paths_are_found_again_after_a_move(folder, tmp_path):
    names = [scene.name for scene in find_scenes(folder)]
    moved = tmp_path / "elsewhere"
    shutil.move(folder, moved)
    assert [scene.name for scene in find_scenes(moved)] == names
