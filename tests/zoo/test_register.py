"""Networks of others, made known by name from outside the package."""

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf import catalogue
from doap_tf.errors import InputError
from doap_tf.features.detectors import check_detector, detect, detects_circles, radius_per_size
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
    with pytest.raises(InputError, match="this Centre has no describe"):
        load_descriptor("centre")


@pytest.mark.parametrize("kind", ["extractor", "matcher"])
def test_other_kinds(kind):
    assert list_pretrained(kind) == []
    toy = object()
    register("toy", kind, lambda: toy)
    assert list_pretrained(kind) == ["toy"] and from_pretrained("toy") is toy
