"""The trial of learned keypoints: views, and what the objective rewards."""

import importlib.util
import pathlib

import cv2
import numpy as np
import pytest
import skimage.data
import tensorflow as tf

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def keypoints():
    spec = importlib.util.spec_from_file_location("keypoints", ROOT / "experiments/keypoints.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def views(keypoints, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name in ("photos", "webcam/square"):
        (folder / name).mkdir(parents=True)
    cv2.imwrite(str(folder / "photos/a.png"), skimage.data.coins())
    for number in range(2):
        cv2.imwrite(str(folder / f"webcam/square/{number}.png"), skimage.data.brick())
    return keypoints.ViewPairs(folder, 96).batch(0, 6)


def test_the_homography_maps_the_first_view_to_the_second(views):
    correlations = []
    for one, two, homography in zip(views.first, views.second, views.homography, strict=True):
        moved = cv2.warpPerspective(one, homography, (96, 96), flags=cv2.INTER_LINEAR)
        seen = cv2.warpPerspective(np.ones_like(one), homography, (96, 96)) > 0
        correlations.append(np.corrcoef(moved[seen], two[seen])[0, 1])
    assert np.median(correlations) > 0.8


def test_sampling_is_that_of_opencv(keypoints, views):
    grid = np.stack(np.meshgrid(np.arange(96.0), np.arange(96.0)), -1).reshape(1, -1, 2)
    images = tf.constant(views.second, tf.float32)
    points = tf.constant(np.tile(grid, [6, 1, 1]), tf.float32)
    there = keypoints._project(tf.constant(views.homography), points)
    found = keypoints._sample(images, there).numpy().reshape(6, 96, 96)
    for image, homography, got in zip(views.second, views.homography, found, strict=True):
        expected = cv2.warpPerspective(
            image.astype(np.float32),
            homography,
            (96, 96),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        assert np.median(np.abs(got - expected)) < 1


def test_cells_keep_every_pixel(keypoints):
    pixels = tf.reshape(tf.range(2 * 24 * 24), [2, 24, 24])
    cells = keypoints._to_cells(pixels)
    assert cells[0, 1, 0] == keypoints.CELL
    np.testing.assert_array_equal(keypoints._from_cells(cells, 24), pixels)


def test_keypoints_that_come_back_are_rewarded(keypoints):
    """The same view twice: scores with the same peaks gain more than scores with others."""
    rng = np.random.default_rng(0)
    image = np.tile(skimage.data.camera()[200:296, 200:296], [1, 1, 1]).astype(np.float32)
    ones, identity = np.ones_like(image), np.eye(3, dtype=np.float32)[np.newaxis]
    views = keypoints.Views(*map(tf.constant, (image, image, ones, ones, identity)))
    flat = lambda patches: tf.math.l2_normalize(tf.reshape(patches, [-1, 1024]) - 128, -1)  # noqa: E731
    objective = keypoints.Objective(flat, 96, 16.0)
    peaks = np.full([2, 96, 96], -4, np.float32)
    for layer in peaks:
        for y in range(0, 96, 8):
            for x in range(0, 96, 8):
                layer[y + rng.integers(8), x + rng.integers(8)] = 6
    apart, _ = objective(tf.constant(peaks), views, tf.constant(0.1))
    same, logged = objective(tf.constant(peaks[[0, 0]]), views, tf.constant(0.1))
    assert same < apart - 0.3
    assert logged["repeated"] > 0.8 and 0 < logged["average precision"] <= 1
