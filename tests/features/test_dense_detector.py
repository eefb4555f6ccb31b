import copy
import pickle

import cv2
import numpy as np
import pytest
from scipy.spatial import KDTree

from doap_tf.catalogue import DEFAULT_DETECTOR, ENTRIES
from doap_tf.errors import InputError
from doap_tf.features.dense_detector import LEAST_PIXELS, DenseDetector
from doap_tf.features.dense_pyramid import RADIUS
from doap_tf.features.dense_reader import DenseReader
from doap_tf.features.detectors import detect
from doap_tf.features.enlarging import enlarge
from doap_tf.matching import DenseExtractor, DescriptorExtractor
from tests.dense import small_model
from tests.features.pictures import photograph


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model())
    return path


def test_keypoints_are_those_of_the_network_at_the_images_own_size(model):
    image = cv2.resize(photograph(), (800, 640))
    expected = DenseExtractor(model, 300, enlarge=False).extract(image)
    found = detect(image, DenseDetector(DenseReader(model)), 300, oriented=False)
    np.testing.assert_allclose(found.frames, expected.frames, atol=1e-9)
    np.testing.assert_array_equal(found.responses, expected.responses)
    turned = detect(image, DenseDetector(DenseReader(model)), 300)
    np.testing.assert_allclose(turned.frames[:, :, 2], expected.frames[:, :, 2], atol=1e-9)
    assert np.abs(turned.frames[:, 0, 1]).max() > RADIUS / 2


def test_small_images_are_enlarged(model):
    image = cv2.resize(photograph(), (300, 200), interpolation=cv2.INTER_AREA)
    factor = (LEAST_PIXELS / image.size) ** 0.5
    larger = enlarge(image, tuple(np.rint(np.array([300, 200]) * factor).astype(int)))
    expected = DenseExtractor(model, None, enlarge=False).extract(larger)
    found = detect(image, DenseDetector(DenseReader(model)), oriented=False)
    finest = expected.points[np.isclose(expected.scales, RADIUS)]
    own = found.frames[np.isclose(found.frames[:, 0, 0], RADIUS / factor, rtol=0.01), :, 2]
    assert len(own) == len(finest) > 100
    assert KDTree((finest + 0.5) / factor - 0.5).query(own)[0].max() < 0.3


def test_nothing_is_found_where_the_mask_is_zero(model):
    image = photograph()
    mask = np.zeros(image.shape, np.uint8)
    mask[100:200, 50:250] = 1
    whole = DescriptorExtractor("pixels", model, None, oriented=False).extract(image)
    masked = DescriptorExtractor("pixels", model, None, oriented=False).extract(image, mask)
    x, y = np.rint(whole.points).astype(int).T
    np.testing.assert_array_equal(masked.frames, whole.frames[mask[y, x] > 0])
    assert len(masked.frames)


def test_patches_are_cut_at_keypoints_of_a_network_by_its_name_or_path(model, tmp_path):
    image = photograph()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "dense.tflite").write_bytes(model.read_bytes())
    extractors = [DescriptorExtractor("rootsift", each, 50) for each in (model, tmp_path / "run")]
    first, second = (extractor.extract(image) for extractor in extractors)
    np.testing.assert_array_equal(first.descriptors, second.descriptors)
    settings = extractors[0].settings()
    assert settings["detector_sha256"] == DenseReader(model).weights_sha256
    assert settings["detector_settings"] == {"precision": "float32", "radius": RADIUS}
    for copied in (copy.deepcopy(extractors[0]), pickle.loads(pickle.dumps(extractors[0]))):
        np.testing.assert_array_equal(copied.extract(image).frames, first.frames)


def test_the_default_is_a_network_of_whole_images_that_ships():
    assert ENTRIES[DEFAULT_DETECTOR].kind == "extractor"
    extractor = DescriptorExtractor("pixels", max_keypoints=20)
    assert extractor.settings()["detector"] == DEFAULT_DETECTOR
    assert len(extractor.extract(photograph()).frames) == 20


def test_two_networks_side_by_side_find_no_keypoints_for_others():
    with pytest.raises(InputError, match=r"doap-dense-128\+doap-fast-128"):
        DescriptorExtractor("pixels", "doap-dense-128+doap-fast-128")
