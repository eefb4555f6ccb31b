import dataclasses
import re

import cv2
import numpy as np
import pytest

from doap_tf.appearance import PRESETS, Appearance, Effect, array_effects
from doap_tf.appearance.array_effects import change_appearance
from doap_tf.errors import InputError
from doap_tf.features.cutting import cut_patches
from doap_tf.features.detectors import detect
from doap_tf.features.frames import inside, scale_frames, similarity_frames
from doap_tf.features.overlap import overlapping_pairs
from doap_tf.patch_generation.groups import GroupSettings, cut_groups, generate_groups
from doap_tf.patch_generation.scenes import find_scenes
from doap_tf.patch_generation.viewpoint import change_viewpoint
from tests.features.pictures import photograph

SETTINGS = GroupSettings(patch_size=32, magnification=5.0, max_groups=60)


def correlation(patches, others):
    centred = [
        p - p.mean(axis=(-2, -1), keepdims=True)
        for p in (patches.astype(float), others.astype(float))
    ]
    first, second = (np.sqrt((p**2).sum(axis=(-2, -1))) for p in centred)
    return (centred[0] * centred[1]).sum(axis=(-2, -1)) / np.maximum(first * second, 1e-9)


def assert_views_show_their_place(patches):
    """By correlation: the same place far more than another one, and less from level to level."""
    same = correlation(patches[:, :1], patches).mean(axis=0)
    others = correlation(patches[:, :1], np.roll(patches, 1, axis=0)).mean(axis=0)
    easy, hard, tough = same[1:6].mean(), same[6:11].mean(), same[11:].mean()
    assert easy > 0.65
    assert easy > hard + 0.08 > tough + 0.13
    assert tough > others[1:].mean() + 0.15


@pytest.fixture(scope="module")
def photo_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for name in ("chelsea", "coffee", "rocket"):
        cv2.imwrite(str(folder / f"{name}.png"), photograph(name))
    return folder


@pytest.fixture
def sequence_folder(tmp_path):
    folder = tmp_path / "sequences" / "v_coffee"
    folder.mkdir(parents=True)
    image, rng = photograph("coffee"), np.random.default_rng(0)
    cv2.imwrite(str(folder / "1.ppm"), cv2.merge([image] * 3))
    for number in range(2, 7):
        view, homography = change_viewpoint(image, rng)
        cv2.imwrite(str(folder / f"{number}.ppm"), cv2.merge([view] * 3))
        np.savetxt(folder / f"H_1_{number}", homography)
    return folder


@pytest.fixture
def webcam_folder(tmp_path):
    folder = tmp_path / "webcams" / "square"
    folder.mkdir(parents=True)
    image, rng = photograph("camera"), np.random.default_rng(0)
    for number in range(9):
        cv2.imwrite(str(folder / f"{number}.png"), change_appearance(image, PRESETS["camera"], rng))
    return folder


def test_groups_of_a_photograph(photo_folder):
    (scene, *_) = find_scenes(photo_folder)
    groups = cut_groups(scene, SETTINGS)
    image = photograph("chelsea")
    assert groups.patches.dtype == np.uint8
    assert groups.patches.shape[1:] == (16, 32, 32)
    assert 40 < len(groups.patches) <= 60
    np.testing.assert_array_equal(groups.patches[:, 0], cut_patches(image, groups.frames, 32, 5.0))
    patches = scale_frames(groups.frames, 5.0)
    assert inside(patches, image.shape).all()
    rows, columns, _ = overlapping_pairs(patches, patches, 0.5001)
    np.testing.assert_array_equal(rows, columns)
    assert_views_show_their_place(groups.patches)


def test_groups_at_learned_keypoints_with_the_errors_of_their_detector(photo_folder):
    (scene, *_) = find_scenes(photo_folder)
    settings = dataclasses.replace(SETTINGS, detector="learned", jitter="learned")
    groups = cut_groups(scene, settings)
    image = photograph("chelsea")
    found = detect(image, "learned", oriented=False).frames
    distances = np.linalg.norm(groups.frames[:, None, :, 2] - found[:, :, 2], axis=-1)
    assert len(groups.frames) > 40
    assert distances.min(axis=1).max() < 1e-9
    np.testing.assert_array_equal(groups.patches[:, 0], cut_patches(image, groups.frames, 32, 5.0))
    same = correlation(groups.patches[:, :1], groups.patches)[:, 1:]
    others = correlation(groups.patches[:, :1], np.roll(groups.patches, 1, axis=0))[:, 1:]
    levels = same.reshape(len(same), 3, 5).mean(axis=(0, 2))
    assert levels.min() > others.mean() + 0.3
    assert np.ptp(levels) < 0.05


def test_frames_that_are_not_oriented_stand_upright_in_the_first_image(photo_folder):
    (scene, *_) = find_scenes(photo_folder)
    groups = cut_groups(scene, dataclasses.replace(SETTINGS, oriented=False))
    radius = groups.frames[:, 0, 0]
    expected = similarity_frames(*groups.frames[:, :, 2].T, radius)
    np.testing.assert_array_equal(groups.frames, expected)
    assert_views_show_their_place(groups.patches)


@pytest.mark.parametrize("magnification", [3.0, 12.0])
def test_magnification_and_size_change_the_patches_but_not_the_frames(photo_folder, magnification):
    (scene, *_) = find_scenes(photo_folder)
    settings = dataclasses.replace(SETTINGS, magnification=magnification, patch_size=42)
    groups = cut_groups(scene, settings)
    expected = cut_patches(photograph("chelsea"), groups.frames, 42, magnification)
    np.testing.assert_array_equal(groups.patches[:, 0], expected)
    np.testing.assert_array_equal(groups.frames, cut_groups(scene, SETTINGS).frames)


def test_large_photographs_are_shrunk(photo_folder, monkeypatch):
    monkeypatch.setattr("doap_tf.patch_generation.photographs._MAX_PIXELS", 40_000)
    (scene, *_) = find_scenes(photo_folder)
    groups = cut_groups(scene, SETTINGS)
    image = photograph("chelsea")
    factor = np.sqrt(40_000 / image.size)
    shrunk = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    assert shrunk.shape == (163, 245)
    np.testing.assert_array_equal(groups.patches[:, 0], cut_patches(shrunk, groups.frames, 32, 5.0))


def test_the_seed_and_the_name_choose_the_views(photo_folder):
    (chelsea, *_) = find_scenes(photo_folder)
    first = cut_groups(chelsea, SETTINGS)
    other = cut_groups(chelsea, dataclasses.replace(SETTINGS, seed=1))
    renamed = cut_groups(dataclasses.replace(chelsea, name="tabby.png"), SETTINGS)
    for changed in (other, renamed):
        count = min(len(first.patches), len(changed.patches))
        assert (first.patches[:count, 1:] != changed.patches[:count, 1:]).mean() > 0.5
    np.testing.assert_array_equal(first.patches, cut_groups(chelsea, SETTINGS).patches)


def test_groups_do_not_depend_on_the_number_of_processes(photo_folder):
    scenes = find_scenes(photo_folder)
    alone, together = (list(generate_groups(scenes, SETTINGS, processes)) for processes in (1, 2))
    assert [scene for scene, _ in alone] == scenes
    for (scene, groups), (again, others) in zip(alone, together, strict=True):
        assert scene == again
        np.testing.assert_array_equal(groups.patches, others.patches)
        np.testing.assert_array_equal(groups.frames, others.frames)


def test_groups_of_a_sequence_follow_its_homographies(sequence_folder):
    (scene,) = find_scenes(sequence_folder.parent, "sequences")
    groups = cut_groups(scene, SETTINGS)
    assert len(groups.patches) > 40
    assert_views_show_their_place(groups.patches)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_singular_homography_is_named(sequence_folder, processes):
    np.savetxt(sequence_folder / "H_1_4", np.ones((3, 3)))
    scenes = find_scenes(sequence_folder.parent, "sequences") * processes
    with pytest.raises(InputError, match="H_1_4 is a singular homography"):
        list(generate_groups(scenes, SETTINGS, processes))


@pytest.mark.parametrize("name", ["H_1_3", "5.ppm"])
def test_a_missing_file_of_a_sequence_is_named(sequence_folder, name):
    (sequence_folder / name).unlink()
    with pytest.raises(InputError, match=f"v_coffee lacks {name}"):
        list(generate_groups(find_scenes(sequence_folder.parent, "sequences"), SETTINGS, 1))


def test_groups_of_aligned_images_come_from_different_images(webcam_folder):
    (scene,) = find_scenes(webcam_folder.parent, "aligned")
    groups = cut_groups(scene, SETTINGS)
    assert len(groups.patches) > 40
    images = [cv2.imread(str(file), cv2.IMREAD_GRAYSCALE) for file in scene.files]
    cuts = np.stack([cut_patches(image, groups.frames, 32, 5.0) for image in images])
    is_reference = (cuts == groups.patches[:, 0]).all(axis=(2, 3))
    assert (is_reference.sum(axis=0) == 1).all()
    assert (is_reference.sum(axis=1) > 0).sum() >= 7
    assert_views_show_their_place(groups.patches)


def test_a_place_is_not_shown_where_something_hides_it(webcam_folder):
    for number in (3, 7):
        path = str(webcam_folder / f"{number}.png")
        image = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
        image[:, 256:] = 13  # of this grey is the screen; patches of it are constant
        cv2.imwrite(path, image)
    (scene,) = find_scenes(webcam_folder.parent, "aligned")
    groups = cut_groups(scene, SETTINGS)
    hidden = groups.frames[:, 0, 2] > 256 + 5 * 10
    assert hidden.sum() > 5
    assert (groups.patches[hidden].std(axis=(2, 3)) > 1).all()


def test_a_lower_bound_keeps_places_whose_light_has_changed(webcam_folder):
    for number in (0, 3, 6):
        path = str(webcam_folder / f"{number}.png")
        cv2.imwrite(path, 255 - cv2.imread(path))
    (scene,) = find_scenes(webcam_folder.parent, "aligned")
    alike, all_of_contrast = (
        cut_groups(scene, dataclasses.replace(SETTINGS, min_correlation=bound))
        for bound in (0.4, -1.0)
    )
    assert 0.3 < alike.hidden < 0.5
    assert all_of_contrast.hidden < 0.1
    opposite = [
        (correlation(groups.patches[:, :1], groups.patches[:, 1:6]) < -0.4).mean()
        for groups in (alike, all_of_contrast)
    ]
    assert opposite[0] < 0.02 and 0.3 < opposite[1] < 0.7


def test_the_share_that_is_hidden_is_printed(webcam_folder, capsys):
    path = str(webcam_folder / "4.png")
    cv2.imwrite(path, np.zeros_like(cv2.imread(path)))
    ((_, groups),) = generate_groups(find_scenes(webcam_folder.parent, "aligned"), SETTINGS, 1)
    assert 1 / 9 < groups.hidden < 2 / 9
    assert f"not shown in {groups.hidden:.1%} of the views (bound 0.4)" in capsys.readouterr().out


def test_aligned_images_of_different_sizes_are_skipped_by_name(webcam_folder, caplog):
    cv2.imwrite(str(webcam_folder / "4.png"), photograph("chelsea"))
    with pytest.raises(InputError, match="none of 1 scenes"):
        list(generate_groups(find_scenes(webcam_folder.parent, "aligned"), SETTINGS, 1))
    assert re.search(r"square is skipped: .*4\.png has shape \(300, 451\)", caplog.text)


def test_a_damaged_aligned_image_is_left_out_by_name(webcam_folder, caplog):
    (webcam_folder / "2.png").write_bytes(b"no image")
    ((_, groups),) = generate_groups(find_scenes(webcam_folder.parent, "aligned"), SETTINGS, 1)
    assert "2.png of square is skipped" in caplog.text
    assert len(groups.patches) > 40


def test_an_aligned_scene_requires_six_images(webcam_folder, caplog):
    for number in range(4):
        (webcam_folder / f"{number}.png").unlink()
    with pytest.raises(InputError, match="none of 1 scenes"):
        list(generate_groups(find_scenes(webcam_folder.parent, "aligned"), SETTINGS, 1))
    assert "5 usable images in square" in caplog.text


@pytest.mark.parametrize("processes", [1, 2])
def test_unusable_photographs_are_skipped_by_name(photo_folder, tmp_path, processes, caplog):
    cv2.imwrite(str(tmp_path / "good.png"), photograph("chelsea"))
    cv2.imwrite(str(tmp_path / "tiny.png"), np.zeros((20, 300), np.uint8))
    cv2.imwrite(str(tmp_path / "blank.png"), np.zeros((200, 300), np.uint8))
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "cut.png").write_bytes((photo_folder / "rocket.png").read_bytes()[:5000])
    found = list(generate_groups(find_scenes(tmp_path), SETTINGS, processes))
    assert [scene.name for scene, _ in found] == ["good.png"]
    messages = sorted(record.message for record in caplog.records)
    assert [message.split(" is skipped: ")[0] for message in messages] == [
        "blank.png",
        "cut.png",
        "empty.jpg",
        "tiny.png",
    ]
    assert "no features" in messages[0]
    assert "300×20 pixels" in messages[3]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("patch_size", 0),
        ("magnification", -1.0),
        ("max_groups", 0),
        ("max_overlap", 1.0),
        ("detector", "surf"),
        ("jitter", "easy"),
        ("min_correlation", 1.0),
    ],
)
def test_impossible_settings_are_named(field, value):
    with pytest.raises(InputError, match=f"{field} .* not '?{value}"):
        GroupSettings(**{field: value})


@pytest.mark.parametrize("kind", ["photos", "aligned"])
def test_effects_of_the_scene_do_not_delete_their_own_groups(photo_folder, webcam_folder, kind):
    scene = find_scenes({"photos": photo_folder, "aligned": webcam_folder.parent}[kind], kind)[0]
    plain, negative = (
        cut_groups(scene, dataclasses.replace(SETTINGS, appearance=appearance))
        for appearance in (Appearance.only(), Appearance.only(negative=Effect()))
    )
    np.testing.assert_array_equal(plain.frames, negative.frames)
    assert correlation(plain.patches[:, 1:], negative.patches[:, 1:]).mean() < -0.9


@pytest.mark.parametrize("kind", ["photos", "aligned"])
def test_places_without_contrast_are_left_out(photo_folder, webcam_folder, kind, monkeypatch):
    def glare(view):
        return np.where(np.arange(view.shape[1]) < 300, 255, view).astype(np.float32)

    monkeypatch.setitem(array_effects.EFFECTS, "negative", glare)
    scene = find_scenes({"photos": photo_folder, "aligned": webcam_folder.parent}[kind], kind)[0]
    settings = dataclasses.replace(SETTINGS, appearance=Appearance.only(negative=Effect()))
    patches = cut_groups(scene, settings).patches[:, 1:]
    assert np.mean(patches.std(axis=(2, 3)) < 1) < 0.02  # jitter moves a few beyond the edge
