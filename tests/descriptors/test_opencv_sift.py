import cv2
import numpy as np

from doap_tf.descriptors.opencv_sift import SiftDescriptor, sift_keypoints
from doap_tf.features import detect, similarity_frames
from tests.matching.scene import views


def in_order(keypoints, rows):
    """Keypoints and rows by place, size and angle."""
    pairs = zip(keypoints, rows, strict=True)
    return sorted(pairs, key=lambda pair: (*pair[0].pt, pair[0].size, pair[0].angle))


def test_rows_and_octaves_are_those_of_opencv():
    image = views()[0]
    frames = detect(image, "dog").frames
    rows = SiftDescriptor(root=False).describe_frames(image, frames)
    ours = in_order(sift_keypoints(frames, image.shape), rows)
    sift = cv2.SIFT.create(enable_precise_upscale=True)
    theirs = in_order(*sift.detectAndCompute(image, None))
    assert len(theirs) > 200
    octaves = set()
    for (keypoint, row), (expected, expected_row) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(keypoint.pt, expected.pt, atol=1e-3)
        assert keypoint.octave & 0xFFFF == expected.octave & 0xFFFF
        assert np.abs(row - expected_row).max() <= 2  # angles pass through radians
        octaves.add(expected.octave & 0xFF)
    assert len(octaves) >= 4


def test_rootsift_is_the_root_of_sift_summing_to_one():
    image = views()[0]
    frames = detect(image, "dog", max_frames=20).frames
    sift, root = (SiftDescriptor(root).describe_frames(image, frames) for root in (False, True))
    np.testing.assert_allclose(root**2, sift / sift.sum(axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(root, axis=1), 1, rtol=1e-5)


def test_no_frames_give_no_rows():
    rows = SiftDescriptor(root=True).describe_frames(views()[0], np.zeros((0, 2, 3)))
    assert rows.shape == (0, 128) and rows.dtype == np.float32


def test_any_frame_of_any_image_is_described():
    frames = similarity_frames(*np.array([(0, 0, 0.001), (5, 2, 1e4), (-50, 900, 3), (1, 1, 40)]).T)
    for shape in ((1, 1), (1, 300), (9, 2), (300, 400)):
        image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        rows = SiftDescriptor(root=True).describe_frames(image, frames)
        assert rows.shape == (4, 128) and np.isfinite(rows).all()
