"""A whole-image network and a matcher of positions, written outside the package."""

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf import catalogue
from doap_tf.errors import InputError
from doap_tf.features import similarity_frames
from doap_tf.matching import (
    Features,
    Matches,
    NearestNeighbours,
    OpenCVExtractor,
    Pipeline,
    Verifier,
    exhaustive_pairs,
    find_images,
    match_features,
    write_matches,
)
from doap_tf.readers.images import as_grey
from doap_tf.zoo import register
from tests.matching.scene import corner_error, views


class Gradients:
    """An extractor: one pass over the image gives scores and descriptors of every pixel."""

    name, norm = "gradients", cv2.NORM_L2

    def __init__(self, count=400):
        self.count = count

    def extract(self, image, mask=None):
        corners = cv2.cornerMinEigenVal(self._grey(image), 5)
        corners[corners < cv2.dilate(corners, np.ones((5, 5)))] = 0
        y, x = np.unravel_index(np.argsort(-corners, axis=None)[: self.count], corners.shape)
        return self.describe(image, similarity_frames(x, y, 4.0), corners[y, x])

    def describe(self, image, frames, responses=None):
        grey = self._grey(image)
        x, y = frames[:, :, 2].round().astype(int).T
        padded = np.pad(grey, 12, mode="edge")
        rows = [padded[b : b + 25 : 3, a : a + 25 : 3].ravel() for a, b in zip(x, y, strict=True)]
        rows = np.array(rows, np.float32).reshape(-1, 81)
        rows -= rows.mean(axis=1, keepdims=True)
        responses = np.zeros(len(rows)) if responses is None else responses
        return Features(frames, responses, rows, self.norm, grey.shape[::-1])

    def settings(self):
        return {"count": self.count}

    @staticmethod
    def _grey(image):
        return cv2.GaussianBlur(as_grey(image), (0, 0), 2)


class Nearby:
    """A matcher: the nearest descriptor among the features within a distance in the image."""

    def __init__(self, radius):
        self.radius = radius

    def match(self, features1, features2):
        offsets = features1.points[:, None] - features2.points
        near = np.linalg.norm(offsets, axis=2) < self.radius
        cosines = features1.descriptors @ features2.descriptors.T
        cosines = np.where(near, cosines, -np.inf)
        second = cosines.argmax(axis=1)
        first = np.flatnonzero(
            near.any(axis=1) & (cosines.argmax(axis=0)[second] == range(len(second)))
        )
        indices = np.stack([first, second[first]], axis=1)
        return Matches(indices, np.linspace(1, 0, len(first), dtype=np.float32))

    def settings(self):
        return {"radius": self.radius}


@pytest.fixture
def images(tmp_path):
    first, second = views()
    for name, image in (("a.png", first), ("b.png", second), ("c.png", first[:, 10:])):
        cv2.imwrite(str(tmp_path / name), image)
    return find_images(str(tmp_path))


def test_two_images(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "ENTRIES", dict(catalogue.ENTRIES))
    register("gradients", "extractor", Gradients)
    register("nearby", "matcher", lambda: Nearby(90))
    pair = doap_tf.match_images(*views(), "gradients", method="nearby")
    same = doap_tf.match_images(*views(), Gradients(), method=Nearby(90))
    np.testing.assert_array_equal(pair.indices, same.indices)
    assert pair.inliers.sum() > 40 and corner_error(pair.model) < 3
    moved = np.linalg.norm(pair.points1 - pair.points2, axis=1)
    assert 20 < moved.max() < 90 and pair.distances is None
    alone = match_features(pair.features1, pair.features2, NearestNeighbours(), Verifier(None))
    assert np.linalg.norm(alone.points1 - alone.points2, axis=1).max() > 90
    for suffix in ("json", "csv", "npz"):
        write_matches(tmp_path / f"matches.{suffix}", pair)


@pytest.mark.parametrize("output_format", ["colmap", "h5"])
def test_a_collection(images, tmp_path, output_format):
    steps = Gradients(), Nearby(90), Verifier("fundamental")
    with Pipeline(tmp_path / "out", *steps) as pipeline:
        outcome = pipeline.run(images, exhaustive_pairs)
        report, written = pipeline.write(images, outcome, output_format)
        expected = Gradients().extract(cv2.imread(str(images["a.png"])))
        np.testing.assert_array_equal(
            pipeline.store.read_features("a.png").descriptors, expected.descriptors
        )
    assert len(outcome.pairs) == 3 and not outcome.failures | outcome.failed_pairs
    assert all((tmp_path / "out" / name).is_file() for name in (*written, "index.html"))
    settings = {"descriptor": "gradients", "count": 400, "method": "Nearby", "radius": 90}
    assert settings.items() <= report["settings"].items()
    assert "gradients, Nearby, fundamental" in (tmp_path / "out/index.html").read_text("utf-8")


def test_a_store_tells_them_from_others(images, tmp_path):
    class Other(Nearby):
        pass

    def matched(extractor, matcher):
        with Pipeline(tmp_path / "out", extractor, matcher, Verifier()) as pipeline:
            pipeline.extract(images)
            pairs = exhaustive_pairs(images)
            return pipeline.match(pairs), [pipeline.store.read_pair(*pair) for pair in pairs]

    counts = {
        (type(matcher), matcher.radius): sum(
            len(pair.indices) for pair in matched(Gradients(), matcher)[1]
        )
        for matcher in (Nearby(90), Nearby(3), Other(3), Nearby(90))
    }
    assert counts[Nearby, 90] > counts[Nearby, 3] == counts[Other, 3]
    with pytest.raises(InputError, match="count = 400, not 50"):
        matched(Gradients(50), Nearby(90))


@pytest.mark.parametrize(
    "feature2d",
    [
        cv2.xfeatures2d.AKAZE.create(),
        cv2.ORB.create(800),
        cv2.SIFT.create(),
        cv2.xfeatures2d.KAZE.create(),
    ],
    ids=lambda feature2d: type(feature2d).__name__,
)
def test_any_feature2d_is_an_extractor(feature2d, images, tmp_path):
    pair = doap_tf.match_images(*views(), feature2d)
    assert corner_error(pair.model) < 3
    keypoints, rows = feature2d.detectAndCompute(views()[0], None)
    order = np.argsort([-keypoint.response for keypoint in keypoints], kind="stable")
    np.testing.assert_array_equal(pair.features1.descriptors, rows[order])
    np.testing.assert_allclose(pair.features1.points, [keypoints[row].pt for row in order])
    extractor = OpenCVExtractor(feature2d, max_keypoints=30)
    with Pipeline(tmp_path / "out", extractor, NearestNeighbours(), Verifier()) as pipeline:
        outcome = pipeline.run(images, exhaustive_pairs)
        assert len(pipeline.store.read_features("a.png").frames) == 30
    assert len(outcome.pairs) == 3
    blank = extractor.extract(np.zeros((5, 70), np.uint8))
    assert blank.descriptors.shape == (0, rows.shape[1]) and blank.descriptors.dtype == rows.dtype
    mask = np.zeros(views()[0].shape, np.uint8)
    mask[:, :200] = 1
    assert extractor.extract(views()[0], mask).points[:, 0].max() < 201


def test_what_does_not_fit_is_one_line():
    image, _ = views()
    with pytest.raises(InputError, match="FastFeatureDetector detects, but does not describe"):
        doap_tf.match_images(image, image, cv2.FastFeatureDetector.create())
    with pytest.raises(InputError, match="ORB must be compared by L2 or Hamming"):
        OpenCVExtractor(cv2.ORB.create(WTA_K=3))
    with pytest.raises(InputError, match=r"keypoints of its own.*neither a detector"):
        doap_tf.match_images(image, image, Gradients(), detector="dog")
    with pytest.raises(InputError, match="ORB describes only keypoints of its own"):
        OpenCVExtractor(cv2.ORB.create()).describe(image, np.zeros((0, 2, 3)))
