"""Pairs of views: the homography, what is inside, and which photographs are used."""

import re
import shutil

import cv2
import numpy as np
import pytest
import skimage.data

from doap_tf.appearance import Appearance, Effect
from doap_tf.errors import InputError
from doap_tf.patch_generation.scenes import find_scenes
from doap_tf.patch_generation.view_pairs import ViewPairs

SIZE = 96


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photographs")
    cv2.imwrite(str(folder / "coins.png"), skimage.data.coins())
    cv2.imwrite(str(folder / "camera.png"), skimage.data.camera())
    return folder


@pytest.fixture(scope="module")
def webcam(tmp_path_factory):
    """Two images of a place: the second is the negative of the first."""
    folder = tmp_path_factory.mktemp("webcams")
    (folder / "square").mkdir()
    cv2.imwrite(str(folder / "square/day.png"), skimage.data.brick())
    cv2.imwrite(str(folder / "square/night.png"), 255 - skimage.data.brick())
    return folder


def correlations(views):
    """Of the second views with the first ones warped to them, where both show the photograph."""
    found = []
    for one, two, inside1, inside2, homography in zip(*views, strict=True):
        warp = lambda image, flags: cv2.warpPerspective(image, homography, (SIZE, SIZE), flags)  # noqa: B023, E731
        seen = cv2.erode(warp(inside1, cv2.INTER_NEAREST), np.ones((3, 3))) & inside2 > 0
        found.append(np.corrcoef(warp(one, cv2.INTER_LINEAR)[seen], two[seen])[0, 1])
    return np.array(found)


def test_the_homography_maps_the_first_view_to_the_second(photographs):
    views = ViewPairs(find_scenes(photographs), SIZE).batch(0, 12)
    assert views.first.shape == (12, SIZE, SIZE) and views.first.dtype == np.uint8
    assert np.median(correlations(views)) > 0.8
    identity = np.tile(np.eye(3, dtype=np.float32), [12, 1, 1])
    assert np.median(correlations(views._replace(homography=identity))) < 0.5


def test_pixels_beyond_the_photograph_are_marked(photographs, tmp_path):
    white = np.full([SIZE, SIZE], 255, np.uint8)
    cv2.imwrite(str(tmp_path / "white.png"), white)
    pairs = ViewPairs(find_scenes(tmp_path), SIZE)
    views = pairs.batch(0, 8)
    shares = views.second_inside.mean(axis=(1, 2))
    assert (
        shares.min() < 0.95
        and shares.min() > 0.3
        and set(np.unique(views.second_inside))
        == {
            0,
            1,
        }
    )


def test_a_batch_is_the_same_at_any_time_and_its_pairs_do_not_depend_on_their_number(photographs):
    scenes = find_scenes(photographs)
    pairs = ViewPairs(scenes, SIZE, seed=3)
    later = pairs.batch(7, 4)
    for one, again in zip(later, ViewPairs(scenes, SIZE, seed=3).batch(7, 2), strict=True):
        np.testing.assert_array_equal(one[:2], again)
    assert (ViewPairs(scenes, SIZE, seed=4).batch(7, 4).first != later.first).any()
    assert (pairs.batch(8, 4).first != later.first).any()


def test_aligned_scenes_give_pairs_of_two_images(photographs, webcam):
    scenes = find_scenes(webcam, "aligned")
    views = ViewPairs(scenes, SIZE).batch(0, 12)
    assert np.median(correlations(views)) < -0.6
    mixed = ViewPairs(find_scenes(photographs) + scenes, SIZE)
    negative = correlations(mixed.batch(0, 40)) < 0
    assert 2 <= negative.sum() <= 16
    assert str(mixed) == "2 photographs and 1 aligned scene"


def test_views_change_as_the_appearance_says(photographs):
    plain, negative = (
        ViewPairs(find_scenes(photographs), SIZE, appearance=appearance).batch(0, 8)
        for appearance in (Appearance.only(), Appearance.only(negative=Effect()))
    )
    np.testing.assert_array_equal(plain.homography, negative.homography)
    assert np.corrcoef(plain.second[0].ravel(), negative.second[0].ravel())[0, 1] < -0.9
    changed = (plain.first != negative.first).any(axis=(1, 2))
    assert 0 < changed.sum() < 8


def test_images_that_cannot_be_used_are_skipped(photographs, tmp_path, caplog):
    folder = shutil.copytree(photographs, tmp_path / "photographs")
    cv2.imwrite(str(folder / "small.png"), np.zeros([SIZE, SIZE - 1], np.uint8))
    (folder / "text.jpg").write_text("no image")
    pairs = ViewPairs(find_scenes(folder), SIZE)
    assert pairs.names == ["camera.png", "coins.png"]
    assert "small.png has 95×96 pixels; at least 96 are required" in caplog.text
    assert re.search(r"skipped: .*text\.jpg", caplog.text)
    assert pairs.sha256 == ViewPairs(find_scenes(photographs), SIZE).sha256


def test_nothing_to_use_is_refused(photographs, webcam):
    with pytest.raises(InputError, match=r"none of 2 scenes can be used .*camera.png has 512×512"):
        ViewPairs(find_scenes(photographs), 1000)
    with pytest.raises(InputError, match="2 usable images of 2 sizes; an aligned"):
        ViewPairs(find_scenes(photographs, "aligned"), SIZE)
