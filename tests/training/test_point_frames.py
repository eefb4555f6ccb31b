import cv2
import numpy as np
import tensorflow as tf

from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.features.cutting import cut_patches as cut_with_opencv
from doap_tf.features.frames import similarity_frames
from doap_tf.training.point_frames import cut_patches, draw_frames, local_similarities
from tests.features.pictures import photograph

HOMOGRAPHY = np.array([[0.9, -0.5, 60], [0.4, 1.1, -20], [4e-4, -3e-4, 1]])


def grid() -> np.ndarray:
    return np.stack(np.meshgrid(*[np.arange(20.0, 300, 20)] * 2), -1).reshape(-1, 2)


def test_similarities_are_those_of_the_local_affine_map():
    points = grid()
    there = cv2.perspectiveTransform(points[np.newaxis], HOMOGRAPHY)[0]
    valid = np.ones(len(points), bool)
    there[::5], valid[::5] = 0, False
    scale, turn = (
        np.asarray(each)[0]
        for each in local_similarities(
            *(tf.constant(each[np.newaxis], tf.float32) for each in (points, there)),
            tf.constant(valid[np.newaxis]),
        )
    )
    depth = points @ HOMOGRAPHY[2, :2] + 1
    mapped = cv2.perspectiveTransform(points[np.newaxis], HOMOGRAPHY)[0]
    affine = HOMOGRAPHY[:2, :2] - mapped[:, :, np.newaxis] * HOMOGRAPHY[2, :2]
    affine /= depth[:, np.newaxis, np.newaxis]
    expected = np.arctan2(affine[:, 1, 0] - affine[:, 0, 1], affine[:, 0, 0] + affine[:, 1, 1])
    inner = ((points > 80) & (points < 240)).all(axis=1)
    assert np.abs(turn - expected)[inner].max() < 0.06
    size = np.sqrt((affine**2).sum(axis=(1, 2)) / 2)
    assert np.abs(np.log(scale / size))[inner].max() < 0.06


def test_frames_follow_their_points():
    points = tf.constant(grid()[np.newaxis].repeat(4, 0), tf.float32)
    turned = points[..., ::-1] * [[[-1.5, 1.5]]]  # by a quarter, and larger
    valid = tf.ones(points.shape[:2], bool)
    one, two = (
        np.asarray(each)
        for each in draw_frames(RandomTensors(tf.constant([1, 2]), 4), points, turned, valid)
    )
    assert 32 <= one[..., 0].min() < 34 and 120 < one[..., 0].max() <= 128
    assert abs(np.log(two[..., 0] / one[..., 0] / 1.5).mean()) < 0.02
    angle = np.angle(np.exp(1j * (two[..., 1] - one[..., 1] - np.pi / 2)))
    assert abs(np.median(angle)) < 0.02 and 0.85 < (np.abs(angle) < 0.6).mean() < 0.95
    alone = draw_frames(RandomTensors(tf.constant([1, 2]), 4), points, turned, ~valid)
    assert np.isfinite(alone).all()


def test_patches_are_those_of_the_frames():
    view = photograph("camera")[100:356, 100:356]
    points = np.array([[120.3, 130.6], [100, 90], [128, 128], [5, 250]])
    frames = np.array([[32, 0.0], [40, 2.5], [128, -1.0], [48, 0.4]])
    patches = cut_patches(
        *(tf.constant(each[np.newaxis], tf.float32) for each in (view, points, frames)), 32
    )
    expected = cut_with_opencv(
        view, similarity_frames(*points.T, frames[:, 0] / 2, frames[:, 1]), 32, 1.0
    )
    assert patches.shape == (4, 32, 32, 1)
    for patch, other in zip(np.asarray(patches)[..., 0], expected, strict=True):
        # OpenCV's patch is smoothed more where it is larger.
        smooth = [cv2.GaussianBlur(each.astype(np.float32), (0, 0), 2) for each in (patch, other)]
        assert np.abs(smooth[0] - smooth[1]).mean() < 2
        assert np.corrcoef(smooth[0].ravel(), smooth[1].ravel())[0, 1] > 0.99
