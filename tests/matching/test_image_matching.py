import dataclasses

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.catalogue import DEFAULT_FOR_PAIRS
from doap_tf.errors import InputError
from doap_tf.features import detect
from doap_tf.matching import DescriptorExtractor, NearestNeighbours, Verifier, match_features
from tests.matching.scene import HOMOGRAPHY, corner_error, views


def blob(side=64):
    y, x = np.mgrid[:side, :side] - side / 2
    return np.uint8(60 + 150 * np.exp(-(x**2 + y**2) / (2 * 5**2)))


@pytest.mark.parametrize("detector", ["dog", "hessian_affine"])
def test_the_true_homography_is_found(detector):
    pair = doap_tf.match_images(*views(), "rootsift", detector)
    assert corner_error(pair.model) < 1.5
    assert pair.inliers.sum() > 60
    mapped = cv2.perspectiveTransform(pair.points1[pair.inliers][None], HOMOGRAPHY)[0]
    assert np.linalg.norm(mapped - pair.points2[pair.inliers], axis=1).max() < 5
    np.testing.assert_allclose(
        pair.points2[0], pair.features2.keypoints[pair.indices[0, 1]].pt, rtol=1e-5
    )


def test_a_detector_may_be_an_object():
    pair = doap_tf.match_images(*views(), "rootsift", cv2.xfeatures2d.AKAZE.create())
    assert corner_error(pair.model) < 2


def test_images_by_path_with_the_default_network_and_their_picture(tmp_path):
    image, other = views()
    paths = tmp_path / "a.png", str(tmp_path / "b.png")
    for path, view in zip(paths, views(), strict=True):
        cv2.imwrite(str(path), view)
    pair = doap_tf.match_images(*paths, max_keypoints=300)
    assert corner_error(pair.model) < 1.5
    extractor = DescriptorExtractor(DEFAULT_FOR_PAIRS, max_keypoints=300)
    from_arrays = doap_tf.match_images(image, other, extractor)
    np.testing.assert_array_equal(pair.indices, from_arrays.indices)
    picture = pair.draw(tmp_path / "matches.png")
    np.testing.assert_array_equal(cv2.imread(str(tmp_path / "matches.png")), picture)
    np.testing.assert_array_equal(from_arrays.draw(), picture)
    with pytest.raises(InputError, match=r"matches\.tex is not the name of a picture"):
        pair.draw(tmp_path / "matches.tex")
    with pytest.raises(InputError, match="matched by its features alone: give the images"):
        match_features(pair.features1, pair.features2).draw()


def test_with_a_detector_patches_are_described_by_default():
    pair = doap_tf.match_images(*views(), detector="dog", max_keypoints=100)
    extractor = DescriptorExtractor(detector="dog", max_keypoints=100, oriented=False)
    assert extractor.name == "doap-fast-128"
    np.testing.assert_array_equal(pair.features1.frames, extractor.extract(views()[0]).frames)


@pytest.mark.parametrize("settings", [{"rotations": "none"}, {"geometry": None}])
def test_patches_that_are_matched_once_follow_the_dominant_gradient(settings):
    pair = doap_tf.match_images(*views(), detector="dog", max_keypoints=100, **settings)
    extractor = DescriptorExtractor(detector="dog", max_keypoints=100)
    assert not extractor.upright
    np.testing.assert_array_equal(pair.features1.frames, extractor.extract(views()[0]).frames)


def turn_left(image, degrees):
    """The image on a canvas that holds it all, and the map to it."""
    height, width = image.shape
    centre, radius = ((width - 1) / 2, (height - 1) / 2), int(np.hypot(width, height) / 2)
    turn = cv2.getRotationMatrix2D(centre, degrees, 1)
    turn[:, 2] += radius - np.array(centre)
    return cv2.warpAffine(image, turn, (2 * radius + 1, 2 * radius + 1)), turn


@pytest.mark.parametrize("name", ["doap-fast-128", "doap-dense-128"])
@pytest.mark.parametrize("degrees", [0, 30, 118])
def test_a_turned_image_is_described_upright(name, degrees):
    image, _ = views()
    second, turn = turn_left(image, degrees)
    settings = {"geometry": "homography", "max_keypoints": 400}
    pair = doap_tf.match_images(image, second, name, **settings)
    assert pair.reliable
    assert abs((pair.turn + degrees + 180) % 360 - 180) <= 1
    assert pair.features2.image_size == second.shape[::-1]
    assert corner_error(pair.model, np.vstack([turn, [0, 0, 1]])) < 1.5
    once = doap_tf.match_images(image, second, name, rotations="none", **settings)
    assert pair.inliers.sum() > (once.inliers.sum() if degrees else 0)


def test_a_turn_by_less_than_fifteen_degrees_is_left():
    extractor = DescriptorExtractor("doap-fast-128", max_keypoints=400, oriented=False)
    image, _ = views()
    second, _ = turn_left(image, 10)
    expected = match_features(extractor.extract(image), extractor.extract(second))
    pair = doap_tf.match_images(image, second, extractor)
    assert pair.turn == 0
    np.testing.assert_array_equal(pair.indices, expected.indices)


def test_an_image_that_could_not_be_read_is_named():
    with pytest.raises(InputError, match=r"^the image is None: cv2\.imread could not read"):
        doap_tf.match_images(views()[0], cv2.imread("absent.png"), "sift")
    with pytest.raises(InputError, match=r"cannot read image absent\.png: No such file"):
        doap_tf.match_images("absent.png", views()[0], "sift")


def test_a_pair_has_a_short_repr():
    pair = doap_tf.match_images(*views(), "sift", max_keypoints=60, geometry=None)
    count = len(pair.indices)
    assert repr(pair) == f"PairMatches({count} matches, not verified)"
    pair = dataclasses.replace(
        pair,
        geometry="fundamental",
        indices=np.zeros((1746, 2), int),
        inliers=np.arange(1746) < 488,
    )
    assert repr(pair).startswith("PairMatches(1,746 matches, 488 inliers, fundamental")


def test_settings_are_passed_on():
    pair = doap_tf.match_images(
        *views(), "sift", max_keypoints=90, method="mutual_ratio", ratio=0.7, geometry=None
    )
    features = [DescriptorExtractor("sift", max_keypoints=90).extract(image) for image in views()]
    expected = match_features(*features, NearestNeighbours("mutual_ratio", 0.7), Verifier(None))
    np.testing.assert_array_equal(pair.indices, expected.indices)
    assert pair.geometry is None and pair.model is None and pair.inliers.all()
    assert 0 < len(pair.indices) < 90


def test_the_estimator_is_passed_on():
    pair = doap_tf.match_images(*views(), "sift", max_keypoints=200, estimator="prosac")
    verifier, points = Verifier(estimator="prosac"), (pair.points1, pair.points2)
    np.testing.assert_array_equal(pair.model, verifier.verify_points(*points, pair.distances).model)
    assert (Verifier().verify_points(*points).model != pair.model).any()
    assert verifier.settings()["estimator"] == "prosac"
    assert "estimator" not in Verifier(None, estimator="prosac").settings()


def test_keypoints_are_limited_unless_all_are_wanted(monkeypatch):
    limits = []
    monkeypatch.setattr(
        "doap_tf.matching.descriptor_extractor.detect",
        lambda image, detector, limit, *_: limits.append(limit) or detect(image, detector, 2),
    )
    for kwargs in ({}, {"max_keypoints": None}, {"max_keypoints": 0}, {"max_keypoints": 7}):
        doap_tf.match_images(*views(), "sift", rotations="none", **kwargs)
        assert len(DescriptorExtractor("sift", **kwargs).detect(views()[0])) == 2
    assert limits == [8192] * 3 + [None] * 6 + [7] * 3


def test_magnifications_are_passed_on():
    pair = doap_tf.match_images(
        *views(), "pixels", max_keypoints=40, magnification=(4, 9), rotations="none"
    )
    extractor = DescriptorExtractor("pixels", max_keypoints=40, magnification=(4, 9))
    expected = extractor.extract(views()[0]).descriptors
    np.testing.assert_array_equal(pair.features1.descriptors, expected)


def test_depth_colour_and_alpha_do_not_matter():
    image, other = views()
    expected = doap_tf.match_images(image, other, "sift")
    bgr = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    alpha = np.full((*image.shape, 1), 77, np.uint8)
    for same in (image.astype(np.uint16) * 257, bgr, np.concatenate([bgr, alpha], axis=2)):
        pair = doap_tf.match_images(same, other, "sift")
        np.testing.assert_array_equal(pair.indices, expected.indices)
        np.testing.assert_array_equal(pair.model, expected.model)


def test_images_of_very_different_size_are_matched():
    image, _ = views()
    small = cv2.resize(image, None, fx=1 / 3, fy=1 / 3, interpolation=cv2.INTER_AREA)
    pair = doap_tf.match_images(image, small, "rootsift", threshold=1.5)
    shrink = np.array([[1 / 3, 0, -1 / 3], [0, 1 / 3, -1 / 3], [0, 0, 1]])
    assert corner_error(pair.model, shrink) < 1


@pytest.mark.parametrize("model", ["rootsift", "pixels"])
@pytest.mark.parametrize(
    "image",
    [np.full((50, 60), 9, np.uint8), views()[0][:1], views()[0][:, :1], views()[0][:1, :1], blob()],
    ids=["blank", "1 pixel high", "1 pixel wide", "1 pixel", "one keypoint"],
)
def test_images_with_nothing_to_match_give_empty_results(model, image):
    for pair in (
        doap_tf.match_images(image, views()[1], model, "dog"),
        doap_tf.match_images(views()[1], image, model, "dog"),
        doap_tf.match_images(image, image, model, "dog"),
    ):
        assert pair.indices.shape == (len(pair.indices), 2)
        assert len(pair.indices) == len(pair.distances) == len(pair.residuals)
        assert pair.model is None and not pair.inliers.any()


def test_a_blob_has_its_one_place():
    # SIFT may note more than one direction of it.
    points = DescriptorExtractor("sift", "dog").extract(blob()).points
    assert len(np.unique(points, axis=0)) == 1


def test_features_of_two_descriptors_do_not_match():
    image, _ = views()
    features = [
        DescriptorExtractor(name, max_keypoints=5).extract(image) for name in ("sift", "orb")
    ]
    with pytest.raises(InputError, match="different descriptors"):
        match_features(*features)


def test_settings_are_checked_at_once():
    for kind, kwargs, message in (
        (NearestNeighbours, {"method": "best"}, "method"),
        (NearestNeighbours, {"ratio": 2.0}, "ratio"),
        (Verifier, {"geometry": "affine"}, "geometry"),
        (Verifier, {"estimator": "best"}, "estimator"),
        (Verifier, {"geometry": "essential"}, "intrinsics"),
        (Verifier, {"intrinsics1": np.zeros((3, 3))}, "intrinsics1"),
    ):
        with pytest.raises(InputError, match=message):
            kind(**kwargs)
