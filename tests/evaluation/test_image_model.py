"""Extractors by name, ONNX files of others, and the cache of features."""

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import load_image_models, onnx_extractor
from doap_tf.evaluation.feature_cache import FeatureCache
from doap_tf.evaluation.image_model import load_extractor
from doap_tf.evaluation.onnx_extractor import OnnxExtractor
from doap_tf.features.enlarging import enlarge
from doap_tf.matching import DescriptorExtractor, match_features
from tests import layouts

IMAGE = layouts.texture(np.random.default_rng(0), 200, 264)


def test_opencvs_algorithms():
    keypoints, rows = cv2.SIFT.create(50, enable_precise_upscale=True).detectAndCompute(IMAGE, None)
    sift, root = (load_extractor(name, 50).extract(IMAGE) for name in ("sift", "rootsift"))
    order = np.argsort([-keypoint.response for keypoint in keypoints], kind="stable")
    np.testing.assert_array_equal(sift.descriptors, rows[order][: len(sift.descriptors)])
    expected = np.sqrt(sift.descriptors / sift.descriptors.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(root.descriptors, expected, atol=1e-6)
    for name, width in (("orb", 32), ("akaze", 61), ("brisk", 64)):
        assert load_extractor(name, 30).extract(IMAGE).descriptors.shape[1] == width


def test_detectors_with_descriptors():
    extractor = load_extractor("dog_upright:rootsift", 40)
    assert isinstance(extractor, DescriptorExtractor) and not extractor.oriented
    np.testing.assert_allclose(extractor.extract(IMAGE).angles, 0, atol=1e-9)
    pooled = load_extractor("fast:beblid@4+6+9", 40)
    assert pooled.settings()["magnification"] == (4, 6, 9)


def test_networks_side_by_side():
    (joined,) = load_image_models(["doap-dense-small-256b+doap-tiny-256b"], 20)
    assert joined.name == "doap-dense-small-256b+doap-tiny-256b"
    assert joined.extractor.extract(IMAGE).descriptors.shape[1] == 64
    assert {"scenes/kermit", "ubc_phototour/notredame"} <= set(joined.training["data"].split(","))


def test_names_of_models():
    names = ["orb", "dog:rootsift", "dog:sift"]
    assert [model.name for model in load_image_models(names, 10)] == names
    for texts, named in (
        (["orb", "orb"], "a model is named twice"),
        (["nothing"], "'nothing' is neither a file or folder nor one of"),
        (["dog:beblid@wide"], "must end in magnifications"),
        (["aliked=."], "ALIKED cannot be imported from"),
        (["xfeat=."], "XFeat cannot be imported from"),
    ):
        with pytest.raises(InputError, match=named):
            load_image_models(texts, 10)


class Session:
    """A network in place of onnxruntime's: corners of the image that it sees."""

    def __init__(self, shape=(1, 1, "H", "W"), normalised=False, transposed=False):
        self.shape, self.normalised, self.transposed = shape, normalised, transposed

    def get_inputs(self):
        return [Named("image", self.shape)]

    def get_outputs(self):
        return [Named(name) for name in ("out_descriptors", "keypoints", "scores")]

    def run(self, names, inputs):
        assert names == ["keypoints", "scores", "out_descriptors"]
        image = inputs["image"]
        assert image.dtype == np.float32 and image.min() >= 0 and image.max() <= 1
        grey = np.ascontiguousarray(image[0, 0])
        self.seen = grey.shape
        points = cv2.goodFeaturesToTrack(grey, 60, 0.01, 5)[:, 0]
        rows = np.stack([cv2.getRectSubPix(grey, (9, 9), tuple(map(float, p))) for p in points])
        rows = rows.reshape(len(points), -1)
        if self.normalised:
            points = points / (np.array(grey.shape[::-1]) - 1) * 2 - 1
        scores = np.linspace(0, 1, len(points), dtype=np.float32)
        return points[np.newaxis], scores, rows.T[np.newaxis] if self.transposed else rows


class Named:
    def __init__(self, name, shape=None):
        self.name, self.shape, self.type = name, shape, "tensor(float)"


def test_onnx_files(monkeypatch):
    def extract(session, image=IMAGE, count=40):
        monkeypatch.setattr(onnx_extractor, "onnx_session", lambda path: (session, "hash"))
        return load_extractor("peer.onnx", count).extract(image)

    plain = Session()
    features = extract(plain)
    assert plain.seen == (224, 288)
    assert len(features.frames) == 40 and (np.diff(features.responses) < 0).all()
    assert (features.points < [263.5, 199.5]).all()
    for session in (Session(normalised=True), Session(transposed=True), Session((1, 3, "H", "W"))):
        np.testing.assert_allclose(extract(session).points, features.points, atol=1e-3)
    large = cv2.resize(IMAGE, None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
    fixed = Session((1, 1, 200, 264))
    pair = match_features(extract(fixed), extract(fixed, large))
    assert fixed.seen == (200, 264)
    near = np.abs((pair.points1 + 0.5) * 2 - 0.5 - pair.points2).max(axis=1) < 2
    assert near.sum() > 20
    with pytest.raises(InputError, match="must take an image"):
        extract(Session((1, 2, 32, 32)))
    with pytest.raises(InputError, match="does not describe an image of 64 × 64"):
        extract(Session(), np.zeros((64, 64), np.uint8))
    assert OnnxExtractor("peer.onnx").settings()["weights_sha256"] == "hash"


def test_a_peer_reads_small_images_enlarged(monkeypatch):
    monkeypatch.setattr(onnx_extractor, "onnx_session", lambda path: (Session(), "hash"))
    enlarged = load_extractor("xfeat_enlarged=peer.onnx", 40)
    features = enlarged.extract(IMAGE)
    larger = enlarge(IMAGE, (373, 283))  # by √2
    expected = load_extractor("xfeat=peer.onnx", 40).extract(larger)
    points = (expected.points + 0.5) * [264 / 373, 200 / 283] - 0.5
    np.testing.assert_allclose(features.points, points, atol=1e-4)
    np.testing.assert_allclose(features.scales, expected.scales / 2**0.5, rtol=2e-3)
    assert features.image_size == (264, 200) and enlarged.settings()["enlarged"] is True


def test_features_are_kept_within_memory():
    extractor = load_extractor("orb", 50)
    reads = []

    def read():
        reads.append(1)
        return IMAGE

    cache = FeatureCache(extractor)
    first = cache.features("a", read)
    assert cache.features("a", read) is first and len(reads) == len(cache.seconds) == 1
    small = FeatureCache(extractor, memory_mb=1e-6)
    for key in "abca":
        small.features(key, read)
    assert len(reads) == 1 + 4
