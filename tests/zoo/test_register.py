"""Networks of others, made known by name from outside the package."""

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf import catalogue
from doap_tf.errors import InputError
from doap_tf.features.detectors import check_detector, detect, detects_circles, radius_per_size
from doap_tf.features.frames import similarity_frames
from doap_tf.matching import Features, Matches
from doap_tf.zoo import from_pretrained, list_pretrained, load_descriptor, register


@pytest.fixture(autouse=True)
def entries(monkeypatch):
    """Forgets at the end what a test registers."""
    before = dict(catalogue.ENTRIES)
    yield
    catalogue.ENTRIES.clear()
    catalogue.ENTRIES.update(before)


class Means:
    """Describes a patch by the means of its quarters."""

    norm, dimension, magnification = cv2.NORM_L2, 4, 6.0

    def describe(self, patches, batch_size=1024):
        half = patches.shape[1] // 2
        quarters = patches.reshape(len(patches), 2, half, 2, half)
        return quarters.mean(axis=(2, 4)).reshape(len(patches), 4).astype(np.float32)


class Centre:
    """Finds one keypoint, in the middle."""

    def detect(self, image, mask=None):
        height, width = image.shape
        return [cv2.KeyPoint(width / 2, height / 2, 10, 30, 1.0)]


def test_a_descriptor():
    register("means", "descriptor", Means, trained_on=("ubc_phototour/liberty",))
    assert "means" in list_pretrained() and "means" not in list_pretrained("detector")
    patches = np.random.default_rng(0).integers(0, 256, (3, 32, 32), np.uint8)
    assert load_descriptor("means").describe(patches).shape == (3, 4)
    assert from_pretrained("means") is load_descriptor("means")  # made once
    pictures = np.random.default_rng(0).integers(0, 256, (2, 120, 160), np.uint8)
    assert doap_tf.DescriptorExtractor("means", detector="dog").extract(pictures[0]) is not None


def test_a_detector():
    register("centre", "detector", Centre)
    image = np.zeros((100, 200), np.uint8)
    check_detector("centre")
    (frame,), _ = detect(image, "centre")
    np.testing.assert_allclose(frame[:, 2], [100, 50])
    assert not detects_circles("centre") and radius_per_size("centre") == 0.5
    register("few", "detector", lambda: cv2.ORB_create(5))
    assert detects_circles("few") and radius_per_size("few") == 1 / 12
    with pytest.raises(InputError, match="centre finds keypoints and describes none"):
        load_descriptor("centre")


class Grid:
    """Features at four fixed points, described by their position in the list."""

    name, norm = "grid", cv2.NORM_L2

    def extract(self, image, mask=None):
        frames = similarity_frames(*np.array([[10, 90, 10, 90], [10, 10, 90, 90], [5] * 4]))
        rows = np.eye(4, dtype=np.float32)
        return Features(frames, np.zeros(4, np.float32), rows, self.norm, image.shape[::-1])


class Reversed:
    """Matches the first feature with the last, and so on."""

    name = "reversed"

    def match(self, features1, features2):
        count = len(features1.frames)
        indices = np.stack([np.arange(count), np.arange(count)[::-1]], axis=1)
        return Matches(indices, np.ones(count, np.float32))


def test_an_extractor_and_a_matcher():
    register("grid", "extractor", Grid)
    register("reversed", "matcher", Reversed)
    assert "grid" in list_pretrained("extractor") and list_pretrained("matcher") == ["reversed"]
    assert isinstance(from_pretrained("reversed"), Reversed)
    image = np.zeros((100, 100), np.uint8)
    pair = doap_tf.match_images(image, image, "grid", method="reversed")
    np.testing.assert_array_equal(pair.points2, pair.points1[::-1])
