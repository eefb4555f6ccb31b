import cv2
import numpy as np
import pytest

from doap_tf.features.frames import radii, similarity_frames, transform_frames, transform_points
from doap_tf.patch_generation.viewpoint import change_viewpoint
from tests.features.pictures import photograph


@pytest.mark.parametrize("seed", range(6))
def test_the_view_shows_the_image_under_the_homography(seed):
    image = cv2.GaussianBlur(photograph("coffee"), (0, 0), 3)
    height, width = image.shape
    view, homography = change_viewpoint(image, np.random.default_rng(seed))
    points = np.random.default_rng(0).uniform(5, (width - 6, height - 6), (500, 2))
    mapped = transform_points(points, homography)
    sampled = [
        cv2.remap(picture, *np.float32(places.T), cv2.INTER_LINEAR)[:, 0].astype(float)
        for picture, places in ((image, points), (view, mapped))
    ]
    assert np.abs(sampled[0] - sampled[1]).mean() < 1.5
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1.0]])
    mapped = transform_points(corners, homography)
    assert (mapped > -0.01).all()
    assert (mapped < np.array(view.shape[::-1]) - 0.99).all()


def test_views_are_mild_and_differ():
    image = photograph("coffee")
    grid = np.stack(np.meshgrid([20, 300, 580], [20, 200, 380]), -1).reshape(-1, 2)
    frames = similarity_frames(*grid.T, 1)
    scales, perspective = [], []
    for seed in range(30):
        _, homography = change_viewpoint(image, np.random.default_rng(seed))
        scales.append(radii(transform_frames(frames, homography)))
        perspective.append(scales[-1].max() / scales[-1].min())
    assert np.min(scales) > 0.3 and np.max(scales) < 2.2
    assert 1.15 < np.median(perspective) < 2
