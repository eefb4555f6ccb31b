"""The objective of keypoints against definitions, scikit-learn, SciPy and finite differences."""

import cv2
import numpy as np
import pytest
import scipy.ndimage
import sklearn.metrics
import tensorflow as tf

from doap_tf.networks import KeypointNetwork
from doap_tf.patch_generation.view_pairs import Views
from doap_tf.training import keypoint_objective
from doap_tf.training.device_views import map_points
from doap_tf.training.keypoint_objective import CELL, KeypointObjective, rank_precision

SIZE = 32
SEED = tf.constant([1, 2], tf.int32)
COST = tf.constant(0.1)
RNG = np.random.default_rng(0)


class Same:
    """A stand-in to which all patches look the same, so that no place ranks before another."""

    input_size, magnification = 4, 2.0

    def __call__(self, patches, training):
        return tf.ones([len(patches), 2])


class Pixels(Same):
    """A stand-in that compares pixels."""

    input_size = 8

    def __call__(self, patches, training):
        rows = tf.reshape(patches, [-1, 64])
        return tf.math.l2_normalize(rows - tf.reduce_mean(rows, -1, keepdims=True), -1)


def make_views(homography=None, image=None):
    image = RNG.uniform(0, 255, [1, SIZE, SIZE]) if image is None else image
    inside = np.ones_like(image)
    inside[:, :, :5] = 0
    homography = np.eye(3) if homography is None else homography
    parts = (image, image, inside, np.ones_like(image), homography[np.newaxis])
    return Views(*(tf.constant(part, tf.float32) for part in parts))


def keypoints_by_definition(logits):
    cells = logits.reshape(SIZE // CELL, CELL, SIZE // CELL, CELL).astype(np.float64)
    weights = np.exp(cells)
    shares = weights / weights.sum(axis=(1, 3), keepdims=True)
    return (shares / (1 + np.exp(-cells))).reshape(SIZE, SIZE)


def gain_by_definition(one, two, inside, move, cost):
    """Of keypoints [S, S] whose counterparts are `move` = (dx, dy) further in the other view."""
    dx, dy = move
    gain = 0.0
    for y in range(SIZE):
        for x in range(SIZE):
            there = x + dx, y + dy
            if not (inside[y, x] and all(2 <= place <= SIZE - 3 for place in there)):
                continue
            repeated = sum(
                keypoint_objective._NEAR[v + 2, u + 2] * two[there[1] + v, there[0] + u]
                for v in range(-2, 3)
                for u in range(-2, 3)
            )
            gain += one[y, x] * (repeated - cost)
    return gain


def test_the_loss_is_that_of_its_definition():
    logits = RNG.normal(0, 2, [2, SIZE, SIZE]).astype(np.float32)
    homography = np.array([[1.0, 0, 3], [0, 1, -2], [0, 0, 1]])
    loss, scores = KeypointObjective(Same(), SIZE)(logits, make_views(homography), COST, SEED)
    one, two = map(keypoints_by_definition, logits)
    # Four pixels beside the edge of the photograph do not count, on the side of the first view or
    # of the second.
    left = np.arange(SIZE) >= 9
    first_inside = np.tile(left, [SIZE, 1])
    second_inside = np.tile(np.roll(left, 3), [SIZE, 1])
    second_inside[:, :3] = False
    gains = [
        gain_by_definition(one, two, first_inside, (3, -2), 0.1),
        gain_by_definition(two, one, second_inside, (-3, 2), 0.1),
    ]
    np.testing.assert_allclose(loss, -sum(gains) / 16, rtol=1e-4)
    assert scores["average_precision"] == 1
    assert 0 < scores["repeated"] < 1


def test_the_gradient_is_that_of_finite_differences():
    angle = 0.3
    homography = np.array(
        [[np.cos(angle), -np.sin(angle), 9], [np.sin(angle), np.cos(angle), -3], [1e-4, 0, 1]]
    )
    views = make_views(homography)
    objective = KeypointObjective(Same(), SIZE)
    logits = tf.Variable(RNG.normal(0, 2, [2, SIZE, SIZE]), dtype=tf.float32)
    with tf.GradientTape() as tape:
        loss, _ = objective(logits, views, COST, SEED)
    gradient = tape.gradient(loss, logits).numpy()
    for direction in (gradient, *RNG.normal(size=[3, 2, SIZE, SIZE])):
        step = 0.3 * direction / np.linalg.norm(direction)
        above, below = (objective(logits + move, views, COST, SEED)[0] for move in (step, -step))
        wanted = (gradient * 2 * step).sum()
        np.testing.assert_allclose(above - below, wanted, rtol=0.02, atol=1e-5)


def test_average_precision_is_scikit_learns():
    queries, database = RNG.normal(size=[2, 1, 30, 4])
    places = RNG.uniform(0, 20, [1, 30, 2])
    visible = RNG.random([1, 30]) < 0.7
    got = rank_precision(
        *(tf.constant(x, tf.float32) for x in (queries, database, places)), visible
    )
    for number in range(30):
        apart = np.linalg.norm(places[0] - places[0, number], axis=1) > 6
        listed = (visible[0] & apart) | (np.arange(30) == number)
        similarity = (database[0] @ queries[0, number])[listed]
        wanted = sklearn.metrics.average_precision_score(
            (np.arange(30) == number)[listed], similarity
        )
        np.testing.assert_allclose(got[0, number], wanted, rtol=1e-5)


def test_places_are_drawn_by_their_probability():
    cell = RNG.normal(0, 1.5, [CELL, CELL]).astype(np.float32)
    logits = np.tile(cell, [300, SIZE // CELL, SIZE // CELL])
    objective = KeypointObjective(Same(), SIZE)
    drawn = objective._draw(tf.constant(logits), SEED).numpy().astype(int).reshape(-1, 2)
    counts = np.zeros([CELL, CELL])
    np.add.at(counts, (drawn[:, 1] % CELL, drawn[:, 0] % CELL), 1)
    wanted = np.exp(cell) / np.exp(cell).sum()
    np.testing.assert_allclose(counts / len(drawn), wanted, atol=0.015)
    cells = drawn[: (SIZE // CELL) ** 2] // CELL
    assert cells.tolist() == [[x, y] for y in range(4) for x in range(4)]


def test_patches_are_cut_around_places():
    image = RNG.uniform(0, 255, [1, 64, 64]).astype(np.float32)
    objective = KeypointObjective(Pixels(), 64)
    place, angle = np.array([30.3, 28.6]), 0.7
    got = objective._patches(
        image, tf.constant(place, tf.float32, [1, 1, 2]), tf.constant([[angle]])
    )
    half = Pixels.magnification * KeypointNetwork.radius
    steps = np.linspace(-half, half, 17)[1::2]  # centres of eight pixels
    x, y = np.meshgrid(steps, steps)
    rows = place[1] + np.sin(angle) * x + np.cos(angle) * y
    columns = place[0] + np.cos(angle) * x - np.sin(angle) * y
    wanted = scipy.ndimage.map_coordinates(image[0], [rows, columns], order=1, mode="nearest")
    np.testing.assert_allclose(got[0, ..., 0], wanted, atol=0.01)


def test_points_and_angles_follow_the_homography():
    angle, scale = 2.5, 1.7
    homography = np.array(
        [
            [scale * np.cos(angle), -scale * np.sin(angle), 30],
            [scale * np.sin(angle), scale * np.cos(angle), 3],
            [0, 0, 1],
        ]
    )
    points = RNG.uniform(0, 60, [1, 20, 2]).astype(np.float32)
    matrix = tf.constant(homography[np.newaxis], tf.float32)
    np.testing.assert_allclose(
        keypoint_objective._turn(matrix, points), angle + 0 * points[..., 0], rtol=1e-4
    )
    tilted = homography.copy()
    tilted[2] = [1e-3, -2e-3, 1.1]
    got = map_points(points, tf.constant(tilted[np.newaxis], tf.float32))
    np.testing.assert_allclose(got, cv2.perspectiveTransform(points, tilted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("repeated", [True, False])
def test_the_descriptor_decides_what_a_place_is_worth(repeated):
    """Stripes repeat along one axis: their places cannot be told apart."""
    image = RNG.uniform(0, 255, [1, SIZE, SIZE])
    if repeated:
        image = np.tile(image[:, :CELL, :CELL], [1, SIZE // CELL, SIZE // CELL])
    objective = KeypointObjective(Pixels(), SIZE)
    logits = np.full([2, SIZE, SIZE], -9, np.float32)
    logits[:, CELL // 2 :: CELL, CELL // 2 :: CELL] = 9
    _, scores = objective(tf.constant(logits), make_views(image=image), COST, SEED)
    assert scores["repeated"] > 0.95
    assert (scores["average_precision"] < 0.6) == repeated
