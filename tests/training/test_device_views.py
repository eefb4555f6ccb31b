import dataclasses

import cv2
import numpy as np
import pytest
import tensorflow as tf

from doap_tf.appearance import Appearance
from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.errors import InputError
from doap_tf.training.device_views import (
    ViewSettings,
    compose,
    inverse,
    make_pairs,
    map_points,
    pick_corners,
    random_homographies,
    warp,
)
from tests.features.pictures import photograph

SEED = tf.constant([3, 5])
IMAGES = np.stack([photograph(name)[:240, :300] for name in ("camera", "chelsea", "grass")])
SETTINGS = ViewSettings(size=96, shift=10.0, point_noise=0.0, appearance=Appearance.only())


def homographies(batch=3, settings=SETTINGS, centre=(150.0, 120.0)):
    source = RandomTensors(SEED, batch)
    return random_homographies(
        source, tf.constant([centre] * batch), tf.fill([batch], 0.8), settings
    )


def test_the_identity_and_a_shift_by_hand():
    image = tf.reshape(tf.range(20), [1, 4, 5])
    identity = tf.eye(3)[tf.newaxis]
    np.testing.assert_array_equal(warp(image, identity, 3)[0], image[0, :3, :3])
    # Half a pixel to the left of the image and one above it, where it is reflected at its edge.
    shift = tf.constant([[[1.0, 0, -1.5], [0, 1, -1], [0, 0, 1]]])
    expected = [[0.5, 0, 0.5], [0.5, 0, 0.5], [5.5, 5, 5.5]]
    np.testing.assert_allclose(warp(image, shift, 3)[0], expected)


def test_views_agree_with_opencv():
    maps = homographies()
    views = warp(tf.constant(IMAGES), maps, 96)
    for image, matrix, view in zip(IMAGES, np.asarray(maps), np.asarray(views), strict=True):
        expected = cv2.warpPerspective(
            image.astype(np.float32),
            matrix.astype(float),
            (96, 96),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REFLECT,
        )
        # OpenCV rounds positions to 1/32 of a pixel.
        assert np.abs(view - expected).mean() < 0.3
        assert np.abs(view - expected).max() < 8


def test_homographies_keep_their_centre_and_their_bounds():
    settings = dataclasses.replace(SETTINGS, perspective=0.0)
    maps = np.asarray(homographies(400, settings), np.float64)
    centre = np.array([47.5, 47.5, 1])
    np.testing.assert_allclose((maps @ centre)[:, :2], [[150, 120]] * 400, atol=1e-3)
    angles = np.degrees(np.arctan2(maps[:, 1, 0], np.exp(0) * maps[:, 1, 1]))
    assert 15 < np.abs(angles).max() < 45
    area = np.linalg.det(maps[:, :2, :2]) ** 0.5 / 0.8
    assert np.exp(-0.35) * 0.9 < area.min() and area.max() < np.exp(0.35) * 1.1
    still = dataclasses.replace(settings, rotation=0.0, log_scale=0.0, log_aspect=0.0, shear=0.0)
    expected = [[0.8, 0, 150 - 0.8 * 47.5], [0, 0.8, 120 - 0.8 * 47.5], [0, 0, 1]]
    np.testing.assert_allclose(homographies(1, still)[0], expected, atol=1e-5)
    tilted = np.asarray(homographies(400))[:, 2, :2]
    assert 0.3 / 96 < np.abs(tilted).max() <= 0.35 / 96


def test_points_are_carried_there_and_back():
    maps = homographies()
    points = tf.constant(np.random.default_rng(0).uniform(0, 95, (3, 20, 2)), tf.float32)
    there = map_points(points, maps)
    for one, matrix, other in zip(points, np.asarray(maps), there, strict=True):
        expected = cv2.perspectiveTransform(np.asarray(one)[:, np.newaxis], matrix)[:, 0]
        np.testing.assert_allclose(other, expected, atol=1e-3)
    np.testing.assert_allclose(map_points(there, inverse(maps)), points, atol=1e-2)
    np.testing.assert_allclose(compose(maps, tf.linalg.inv(maps)), [np.eye(3)] * 3, atol=1e-3)


def test_corners_are_picked_where_they_are_allowed():
    board = np.kron(np.indices((4, 4)).sum(axis=0) % 2, np.ones((24, 24))) * 200.0
    views = tf.constant(board[np.newaxis], tf.float32)
    allowed = np.ones((1, 96, 96), bool)
    allowed[:, :, 60:] = False
    unequal = tf.constant(np.random.default_rng(0).uniform(0, 0.1, allowed.shape), tf.float32)
    corners, valid = pick_corners(views, tf.constant(allowed), unequal, 40)
    strongest = np.asarray(corners)[0, :6]
    nearest = np.round((strongest + 0.5) / 24)
    assert np.abs(strongest + 0.5 - 24 * nearest).max() <= 3
    assert {tuple(row) for row in nearest} == {(x, y) for x in (1, 2) for y in (1, 2, 3)}
    assert np.all(np.asarray(corners)[np.asarray(valid)][:, 0] < 60)


def test_points_of_pairs_show_the_same_in_both_views():
    photos, webcams = tf.constant(IMAGES), tf.constant(np.concatenate([IMAGES, IMAGES]))
    cameras = tf.constant([0, 1, 2] * 2)
    pairs = make_pairs(photos, webcams, cameras, SEED, 8, 20, SETTINGS)
    assert pairs.view1.shape == pairs.view2.shape == (8, 96, 96)
    assert pairs.points1.shape == pairs.points2.shape == (8, 20, 2)
    valid = np.asarray(pairs.valid)
    assert valid.shape == (8, 20) and valid.mean() > 0.7
    for points in (np.asarray(pairs.points1)[valid], np.asarray(pairs.points2)[valid]):
        assert points.min() >= 8 and points.max() <= 87
    for number in range(8):
        near = [
            cv2.remap(
                cv2.GaussianBlur(np.asarray(view[number]), (0, 0), 1.5),
                *np.split(np.asarray(points[number])[valid[number]], 2, axis=1),
                cv2.INTER_LINEAR,
            )
            for view, points in ((pairs.view1, pairs.points1), (pairs.view2, pairs.points2))
        ]
        assert np.median(np.abs(near[0] - near[1])) < 10


def test_pairs_are_the_same_under_xla_and_others_by_another_seed():
    settings = dataclasses.replace(SETTINGS, size=64, point_noise=0.5)
    photos = tf.constant(IMAGES)
    compiled = tf.function(make_pairs, jit_compile=True)
    eager = make_pairs(photos, None, None, SEED, 4, 10, settings)
    pairs = compiled(photos, None, None, SEED, 4, 10, settings)
    np.testing.assert_array_equal(pairs.valid, eager.valid)
    for one, other in zip(pairs[:4], eager[:4], strict=True):
        np.testing.assert_allclose(one, other, atol=0.1)
    other = compiled(photos, None, None, SEED + 1, 4, 10, settings)
    assert np.abs(other.view1 - pairs.view1).mean() > 1


def test_two_images_of_one_webcam_are_a_pair():
    levels = np.array([10, 20, 110, 120, 130], np.uint8)
    webcams = tf.constant(np.broadcast_to(levels[:, np.newaxis, np.newaxis], (5, 80, 80)))
    settings = dataclasses.replace(SETTINGS, size=32, webcam_share=1.0)
    pairs = make_pairs(webcams[:1], webcams, tf.constant([0, 0, 1, 1, 1]), SEED, 40, 4, settings)
    first, second = (np.asarray(view)[:, 0, 0] for view in pairs[:2])
    assert not np.asarray(pairs.valid).any()
    assert ((first > 50) == (second > 50)).all() and (first != second).any()
    assert set(np.round(first)) == set(levels)


@pytest.mark.parametrize("bad", [{"size": 16}, {"webcam_share": 1.5}])
def test_bad_settings_are_refused(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        ViewSettings(**bad)
