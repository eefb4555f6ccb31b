import json

import cv2
import pytest

from doap_tf import catalogue
from doap_tf.errors import InputError
from doap_tf.features import LearnedDetector
from doap_tf.matching import DescriptorExtractor, MatchStore
from doap_tf.matching.component_settings import component_settings
from doap_tf.zoo import load_descriptor, register


@pytest.mark.parametrize(
    ("create", "parameters"),
    [
        (cv2.ORB.create, {"nfeatures": 50}),
        (cv2.SIFT.create, {"contrastThreshold": 0.02}),
        (cv2.SIFT.create, {"enable_precise_upscale": True}),
        (cv2.FastFeatureDetector.create, {"threshold": 11}),
        (cv2.FastFeatureDetector.create, {"nonmaxSuppression": False}),
        (cv2.xfeatures2d.AKAZE.create, {"descriptor_channels": 1}),
        (cv2.xfeatures2d.AKAZE.create, {"max_points": 100}),
        (cv2.GFTTDetector.create, {"blockSize": 5}),
    ],
)
def test_every_parameter_of_opencvs_tells(create, parameters):
    settings = component_settings(create(**parameters))
    assert settings == json.loads(json.dumps(settings)) == component_settings(create(**parameters))
    assert settings != component_settings(create())


def test_a_store_of_one_detector_does_not_serve_another(tmp_path):
    many, few = (DescriptorExtractor("sift", cv2.ORB.create(count)) for count in (2000, 50))
    assert many.settings()["detector"] == few.settings()["detector"] == "ORB"
    with MatchStore(tmp_path / "finished.db", many.settings()):
        pass
    with MatchStore(tmp_path / "finished.db", many.settings()):
        pass
    with pytest.raises(InputError, match=r"detector_settings = .*'nfeatures': 2000.*not .*50"):
        MatchStore(tmp_path / "finished.db", few.settings())


class Own:
    norm, dimension, magnification = cv2.NORM_L2, 4, 5.0

    def detect(self, image, mask=None):
        raise AssertionError("only settings are asked for")

    def describe(self, patches, batch_size=1024):
        raise AssertionError("only settings are asked for")


class Telling(Own):
    def __init__(self, threshold):
        self.threshold = threshold

    def settings(self):
        return {"threshold": self.threshold}


@pytest.mark.parametrize(
    "extractor",
    [
        DescriptorExtractor("sift", Own()),
        DescriptorExtractor(Own()),
        DescriptorExtractor("sift", cv2.AffineFeature.create(cv2.ORB.create())),
    ],
    ids=["detector", "descriptor", "OpenCV's that writes nothing"],
)
def test_unknown_parameters_are_refused_with_a_remedy(extractor):
    with pytest.raises(InputError, match=r"(Own|Affine).*cannot be stored.*settings\(\)"):
        extractor.settings()


def test_a_registered_name_stands_for_its_object(monkeypatch):
    monkeypatch.setattr(catalogue, "ENTRIES", dict(catalogue.ENTRIES))
    for value in (0, 1):
        register("telling", "detector", lambda value=value: Telling(value))
        settings = DescriptorExtractor("sift", "telling").settings()
        assert settings["detector_settings"] == {"threshold": value}


def test_objects_that_tell_their_parameters_are_told_apart():
    for make in (
        lambda value: DescriptorExtractor("sift", Telling(value)),
        lambda value: DescriptorExtractor(Telling(value)),
        lambda value: DescriptorExtractor("sift", LearnedDetector(threshold=value)),
        lambda value: DescriptorExtractor(
            load_descriptor(["vgg", "beblid"][value]), magnification=6
        ),
    ):
        assert make(0).settings() == make(0).settings() != make(1).settings()
