import cv2
import numpy as np
import pytest

from doap_tf.drawing.matches import draw_frames, draw_matches
from doap_tf.features import similarity_frames
from doap_tf.matching import Features, PairMatches

GREY = np.full((200, 300), 90, np.uint8)


def features(points, size=(300, 200)):
    points = np.asarray(points, float).reshape(-1, 2)
    frames = similarity_frames(points[:, 0], points[:, 1], np.full(len(points), 4.0))
    rows = np.zeros((len(points), 8), np.float32)
    return Features(frames, np.zeros(len(points), np.float32), rows, cv2.NORM_L2, size)


def pair_of(
    points1, points2, inliers, model=None, size1=(300, 200), size2=(300, 200), confidence=0.9
):
    count = len(inliers)
    return PairMatches(
        features(points1, size1),
        features(points2, size2),
        np.stack([np.arange(count)] * 2, axis=1),
        np.ones(count, np.float32),
        None,
        "homography",
        model,
        np.array(inliers, bool),
        np.zeros(count),
        confidence,
    )


def colourful(picture):
    """Where a picture is not grey, bool [H, W]."""
    return np.ptp(picture.astype(int), axis=2) > 60


def test_inliers_are_joined_in_colour_and_outliers_are_not():
    points1, points2 = [(50, 50), (60, 150)], [(250, 50), (240, 150)]
    both = draw_matches(GREY, GREY, pair_of(points1, points2, [True, True]))
    upper = draw_matches(GREY, GREY, pair_of(points1, points2, [True, False]))
    neither = draw_matches(GREY, GREY, pair_of(points1, points2, [False, False]))
    assert both.shape == upper.shape and both.dtype == np.uint8
    # Images of 300 × 200 are enlarged three times: the lines lie at these rows.
    top = 52
    first, second = top + round(50.5 * 3), top + round(150.5 * 3)
    columns = slice(300, 1500)  # between the left and the right end of each line
    assert colourful(both)[first - 2 : first + 3, columns].any(axis=0).mean() > 0.9
    assert colourful(both)[second - 2 : second + 3, columns].any(axis=0).mean() > 0.9
    assert colourful(upper)[first - 2 : first + 3, columns].any(axis=0).mean() > 0.9
    assert not colourful(upper)[second - 2 : second + 3].any()
    assert not colourful(neither).any()


def test_the_first_images_outline_is_drawn_under_the_homography():
    shrink = np.diag([0.5, 0.5, 1.0])
    without = draw_matches(GREY, GREY, pair_of([], [], []))
    outlined = draw_matches(GREY, GREY, pair_of([], [], [], shrink))
    y, x = np.nonzero((outlined != without).any(axis=2))
    left = 2 * 16 + 900
    # Half of 300 × 200, thrice enlarged, from the second image's upper left corner.
    assert abs(x.max() - (left + 450)) < 5 and abs(y.max() - (52 + 300)) < 5
    assert x.min() >= left - 2
    by_chance = [
        draw_matches(GREY, GREY, pair_of([], [], [], model, confidence=0.2))
        for model in (None, shrink)
    ]
    np.testing.assert_array_equal(*by_chance)


@pytest.mark.parametrize(
    "shape", [(1, 300), (300, 1), (1, 1), (4000, 60), (500, 500, 3), (50, 50, 4)]
)
def test_images_of_any_shape_are_drawn(shape):
    image = np.zeros(shape, np.uint8)
    size = shape[1], shape[0]
    pair = pair_of([(0, 0)], [(0, 0)], [True], np.eye(3), size1=size)
    for picture in (
        draw_matches(image, GREY, pair, "a title"),
        draw_frames(image, pair.features1.frames),
    ):
        assert picture.ndim == 3 and max(picture.shape) < 2000


def test_frames_are_drawn_as_ellipses():
    frames = similarity_frames([150], [100], [40])
    picture = draw_frames(GREY, frames)
    plain = draw_frames(GREY, frames[:0])
    changed = (picture != plain).any(axis=2)[52:]
    zoom = 4.0
    x, y = 16 + 150.5 * zoom, 100.5 * zoom
    rows, columns = np.nonzero(changed)
    assert np.abs(np.array([columns.min(), columns.max()]) - (x - 160, x + 160)).max() < 4
    assert np.abs(np.array([rows.min(), rows.max()]) - (y - 160, y + 160)).max() < 4
    assert changed[round(y), round(x + 80)] and not changed[round(y), round(x - 80)]  # the ray
