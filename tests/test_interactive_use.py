"""What notebooks and process pools do with descriptors, detectors, extractors and matchers."""

import concurrent.futures
import copy
import multiprocessing
import pickle

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.data import PatchGroups
from doap_tf.descriptors import HANDCRAFTED
from doap_tf.errors import InputError
from doap_tf.features import LearnedDetector, detect
from doap_tf.features.dense_reader import DenseReader, ImageMaps
from doap_tf.features.scale_space import LaplaceDetector
from doap_tf.matching import (
    DenseExtractor,
    DescriptorExtractor,
    NearestNeighbours,
    OpenCVExtractor,
    Outcome,
    Verifier,
)
from doap_tf.networks import DescriptorNetwork
from doap_tf.patch_generation import Groups
from tests.dense import small_model
from tests.matching.scene import views

PATCHES = np.random.default_rng(0).integers(0, 256, (3, 40, 40), np.uint8)


def copies(value):
    return copy.deepcopy(value), pickle.loads(pickle.dumps(value))


@pytest.fixture(scope="module")
def dense_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model())
    return path


@pytest.mark.parametrize(
    "name",
    [
        "doap-tiny-256b",
        "rootsift",
        "teblid",
    ],
)
def test_descriptors_are_called_copied_and_pickled(name):
    descriptor = doap_tf.from_pretrained(name)
    expected = descriptor.describe(PATCHES)
    np.testing.assert_array_equal(descriptor(PATCHES), expected)
    one = descriptor(PATCHES[0])
    assert one.shape == (1, expected.shape[1])
    np.testing.assert_allclose(one, expected[:1], atol=1e-5)
    for same in copies(descriptor):
        assert repr(same) == repr(descriptor)
        np.testing.assert_allclose(same(PATCHES), expected, atol=1e-6)
        assert getattr(same, "weights_sha256", "") == getattr(descriptor, "weights_sha256", "")


def test_a_copy_of_a_keras_network_is_its_own():
    network = DescriptorNetwork(width=0.25, output_dim=16)
    descriptor = doap_tf.Descriptor(network)
    expected = descriptor(PATCHES)
    sha256 = descriptor.weights_sha256
    copied, pickled = copies(descriptor)
    network.set_weights([0 * weight for weight in network.get_weights()])
    assert copied.weights_sha256 == pickled.weights_sha256 == sha256
    np.testing.assert_allclose(pickled(PATCHES), expected, atol=1e-6)


def test_handcrafted_descriptors_are_loaded_by_name():
    for name in HANDCRAFTED:
        assert doap_tf.from_pretrained(name) is HANDCRAFTED[name]


def test_detectors_extractors_and_matchers_are_copied_and_pickled(dense_file):
    image = views()[0]
    for detector in (LearnedDetector(threshold=1.0), LaplaceDetector("hessian")):
        for same in copies(detector):
            np.testing.assert_array_equal(same.detect(image), detector.detect(image))
    reader = DenseReader(dense_file)
    extractors = (
        DenseExtractor(dense_file, max_keypoints=50),
        DescriptorExtractor("rootsift", LearnedDetector(), max_keypoints=50),
    )
    dense_file.unlink()
    for same in copies(reader):
        np.testing.assert_array_equal(same.read(image).scores, reader.read(image).scores)
    for extractor in extractors:
        expected = extractor.extract(image)
        for same in copies(extractor):
            assert same.settings() == extractor.settings()
            np.testing.assert_array_equal(same.extract(image).frames, expected.frames)
            np.testing.assert_allclose(
                same.extract(image).descriptors, expected.descriptors, atol=1e-6
            )
    for value in (NearestNeighbours("mutual_ratio", 0.7), Verifier("fundamental")):
        assert copies(value) == (value, value)


def test_what_holds_algorithms_of_opencv_is_copied_and_pickled():
    image = views()[0]
    precise = cv2.SIFT.create(nfeatures=30, enable_precise_upscale=True)
    for extractor in (
        OpenCVExtractor(cv2.ORB.create(nfeatures=30, nlevels=3), max_keypoints=20),
        DescriptorExtractor("rootsift", precise),
    ):
        expected = extractor.extract(image)
        for same in copies(extractor):
            found = same.extract(image)
            assert same.settings() == extractor.settings()
            np.testing.assert_array_equal(found.frames, expected.frames)
            np.testing.assert_array_equal(found.descriptors, expected.descriptors)


def test_an_algorithm_that_opencv_does_not_write_says_so():
    affine = OpenCVExtractor(cv2.AffineFeature.create(cv2.SIFT.create(), maxTilt=1))
    with pytest.raises(InputError, match="AffineFeature cannot be copied or pickled"):
        pickle.dumps(affine)


def test_process_pools_extract(tmp_path):
    paths = [tmp_path / "a.png", tmp_path / "b.png"]
    for path, image in zip(paths, views(), strict=True):
        cv2.imwrite(str(path), image)
    extractor = DescriptorExtractor("doap-tiny-256b", max_keypoints=40)
    expected = extractor.extract(paths[0])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        first, second = pool.map(extractor.extract, paths)
    np.testing.assert_array_equal(first.frames, expected.frames)
    np.testing.assert_array_equal(first.descriptors, expected.descriptors)
    assert len(second.frames) == 40


def test_what_is_shown_is_one_short_line():
    image = views()[0]
    extractor = DescriptorExtractor("sift", "dog", max_keypoints=20)
    features = extractor.extract(image)
    points = LearnedDetector().detect(image)
    shown = {
        doap_tf.from_pretrained("doap-tiny-256b"): "Descriptor(256 bits of patches of 32×32, "
        "litert, float32)",
        doap_tf.from_pretrained("rootsift"): "HandcraftedDescriptor(rootsift, 128 floats)",
        LearnedDetector(): "LearnedDetector(threshold=-2)",
        extractor: "DescriptorExtractor(sift, detector=dog, max_keypoints=20)",
        OpenCVExtractor(cv2.ORB.create()): "OpenCVExtractor(ORB, max_keypoints=None)",
    }
    for value, expected in shown.items():
        assert repr(value) == expected
    assert repr(features) == "Features(20 keypoints, 128 floats, image of 400×300)"
    assert repr(NearestNeighbours().match(features, features)) == "Matches(20 matches)"
    assert repr(detect(image, "dog", 20)) == "Detections(20 frames)"
    assert repr(points) == f"Points({len(points.x):,} points)"
    matches = NearestNeighbours().match(features, features)
    verification = Verifier().verify_points(*2 * [features.points[matches.indices[:, 0]]])
    assert repr(verification) == "Verification(20 inliers of 20 matches)"
    assert repr(Outcome(["a", "b"], [("a", "b")], {}, {}, 0)) == (
        "Outcome(2 images, 1 pair, 0 failures)"
    )
    maps = ImageMaps(np.zeros((30, 40)), [np.zeros((15, 20, 8))])
    assert repr(maps) == "ImageMaps(image of 40×30, 1 feature map)"
    views_of_places = Groups(np.zeros((1200, 16, 32, 32), np.uint8), np.zeros((1200, 2, 3)))
    assert repr(views_of_places) == "Groups(1,200 groups of 16 patches of 32×32)"
    groups = PatchGroups.from_arrays(PATCHES, [0, 0, 1], source="a " * 99)
    assert len(repr(groups)) < 110
