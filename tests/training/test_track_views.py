"""Views of two photographs of one scene, against brute force."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf

from doap_tf.appearance import Appearance
from doap_tf.errors import InputError
from doap_tf.training.device_views import ViewSettings, make_pairs
from doap_tf.training.scene_tracks import SceneTracks, load_tracks
from doap_tf.training.track_views import make_track_pairs, pick_separate

SEED = tf.constant([3, 5])
SETTINGS = ViewSettings(
    size=96,
    shift=8.0,
    log_scale=0.1,
    log_aspect=0.0,
    shear=0.0,
    rotation=5.0,
    perspective=0.1,
    point_noise=0.0,
    appearance=Appearance.only(),
)
SHIFT = np.array([17, 9])


def made_scene(points=200) -> SceneTracks:
    """Two images of a texture, the second moved, and a third of which few points are known."""
    generator = np.random.default_rng(0)
    texture = generator.integers(0, 256, (40, 40)).astype(np.uint8).repeat(6, 0).repeat(6, 1)
    images = np.stack([texture[20:220, 20:220]] * 3)
    images[1] = texture[20 - SHIFT[1] : 220 - SHIFT[1], 20 - SHIFT[0] : 220 - SHIFT[0]]
    places = generator.uniform(10, 170, (points, 2))
    return SceneTracks(
        images,
        np.repeat([1, 0, 2], [points, points, 10]).astype(np.int32),
        np.concatenate([np.arange(points), np.arange(points)[::-1], np.arange(10)]).astype(
            np.int32
        ),
        np.concatenate([places + SHIFT, places[::-1], places[:10]]).astype(np.float32),
    )


def test_pairs_are_images_that_share_tracks():
    tracks = made_scene()
    pairs = tracks.pairs()
    np.testing.assert_array_equal(pairs.numbers, [[0, 1]])
    np.testing.assert_array_equal(pairs.counts, [200])
    np.testing.assert_allclose(pairs.points[0, 1] - pairs.points[0, 0], [SHIFT] * 200, atol=1e-4)
    np.testing.assert_array_equal(pairs.cumulative, [1])
    assert made_scene(600).pairs().points.shape == (1, 2, 512, 2)
    turned = tracks.positions.copy()
    turned[:200] = turned[:200] @ [[0.6, 0.8], [-0.8, 0.6]]  # by 53 degrees
    assert len(tracks._replace(positions=turned).pairs().counts) == 0
    turned[:200] = tracks.positions[:200] @ [[0.8, 0.6], [-0.6, 0.8]]  # by 37 degrees
    assert len(tracks._replace(positions=turned).pairs().counts) == 1


def test_the_points_show_the_same_in_both_views():
    pairs = made_scene().pairs()
    made = make_track_pairs(tf.nest.map_structure(tf.constant, pairs), SEED, 6, 300, SETTINGS)
    valid = np.asarray(made.valid)
    assert made.view1.shape == (6, 96, 96) and valid.shape == (6, 300)
    assert valid.sum(axis=1).min() > 8 and valid.sum(axis=1).max() <= 200
    for number in range(6):
        grey = []
        for views, points in ((made.view1, made.points1), (made.view2, made.points2)):
            x, y = np.rint(np.asarray(points)[number, valid[number]].T).astype(int)
            grey.append(np.asarray(views)[number][y, x])
        assert np.corrcoef(*grey)[0, 1] > 0.6
    for points in (made.points1, made.points2):
        inner = np.asarray(points)[valid]
        assert inner.min() > 8 and inner.max() < 87


def test_of_neighbours_one_is_picked():
    generator = np.random.default_rng(1)
    in_views = generator.uniform(0, 60, (3, 2, 80, 2)).astype(np.float32)
    visible = generator.random((3, 80)) < 0.8
    priorities = generator.random((3, 80)).astype(np.float32)
    index, valid = map(np.asarray, pick_separate(in_views, visible, priorities, 90))
    for pair in range(3):
        expected = set()
        for one in np.flatnonzero(visible[pair]):
            rivals = [
                other
                for other in np.flatnonzero(visible[pair])
                if priorities[pair, other] > priorities[pair, one]
                and any(
                    np.abs(in_views[pair, side, one] - in_views[pair, side, other]).max() <= 3
                    for side in (0, 1)
                )
            ]
            if not rivals:
                expected.add(one)
        picked = index[pair][valid[pair]]
        assert set(picked) == expected and len(picked) == len(expected) < visible[pair].sum()
        assert (np.diff(priorities[pair, picked]) < 0).all()
        for one, other in itertools.combinations(picked, 2):
            apart = np.abs(in_views[pair, :, one] - in_views[pair, :, other]).max(-1)
            assert apart.min() > 3


def test_track_pairs_follow_the_others_with_and_without_xla():
    scene = made_scene()
    tracks = tf.nest.map_structure(tf.constant, scene.pairs())
    settings = dataclasses.replace(SETTINGS, webcam_share=0.0, point_noise=0.5)

    def make(photos, tracks):
        others = make_track_pairs(tracks, SEED, 2, 20, settings)
        return make_pairs(photos, None, None, SEED, 3, 20, settings, others)

    photos = tf.constant(scene.images)
    eager, compiled = make(photos, tracks), tf.function(make, jit_compile=True)(photos, tracks)
    alone = make_pairs(photos, None, None, SEED, 3, 20, settings)
    np.testing.assert_array_equal(eager.valid, compiled.valid)
    for one, other, first in zip(eager[:4], compiled[:4], alone[:4], strict=True):
        np.testing.assert_allclose(one, other, atol=0.1)
        np.testing.assert_array_equal(one[:3], first)


def test_tracks_come_back_from_their_file(tmp_path):
    tracks = made_scene()
    tracks.save(tmp_path / "tracks.npz")
    loaded = load_tracks(tmp_path / "tracks.npz")
    for one, other in zip(loaded[1:], tracks[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(loaded) == "3 photographs of scenes with 200 points"
    made_scene(20).save(tmp_path / "few.npz")
    with pytest.raises(InputError, match="no two images have 24 points in common"):
        load_tracks(tmp_path / "few.npz")
    (tmp_path / "other.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match="holds no tracks of scenes"):
        load_tracks(tmp_path / "other.npz")
