import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.features.detectors import DETECTORS, RADIUS_PER_SIZE, Detections, detect
from doap_tf.features.frames import (
    angles,
    compose,
    frames_from_keypoints,
    radii,
    semi_axes,
    similarity_frames,
    transform_frames,
)
from doap_tf.features.orientation import orient
from doap_tf.features.overlap import overlapping_pairs
from tests.features.pictures import blob, photograph


@pytest.mark.parametrize("sigma", [2.0, 3.5, 6.0, 11.0])
@pytest.mark.parametrize(
    ("detector", "radius"),
    [
        ("dog", 0.89),
        ("harris_laplace", 1.0),
        ("hessian_laplace", 1.0),
        ("harris_affine", 1.0),
        ("hessian_affine", 1.0),
    ],
)
def test_radius_is_the_scale_of_a_blob(detector, radius, sigma):
    found = detect(blob((sigma, sigma)), detector, oriented=False)
    assert radii(found.frames)[0] == pytest.approx(radius * sigma, rel=0.05)
    np.testing.assert_allclose(found.frames[0, :, 2], (64.3, 60.6), atol=0.1 * max(sigma, 2))


@pytest.mark.parametrize(("sigmas", "angle"), [((8, 4), 0.5), ((12, 6), -1.0), ((9, 3), 1.3)])
def test_hessian_affine_finds_the_shape_of_an_ellipse(sigmas, angle):
    (frame, *_) = detect(blob(sigmas, angle), "hessian_affine", oriented=False).frames
    axes = semi_axes(frame[None])[0]
    assert axes[0] / axes[1] == pytest.approx(sigmas[0] / sigmas[1], rel=0.15)
    direction = np.linalg.svd(frame[:, :2])[0][:, 0]
    along = np.array([np.cos(angle), np.sin(angle)])
    assert abs(direction @ along) > np.cos(np.radians(2))
    np.testing.assert_allclose(frame[0, 1], frame[1, 0])  # upright


@pytest.mark.parametrize("family", ["harris", "hessian"])
def test_affine_frames_follow_a_change_of_viewpoint_and_circles_cannot(family):
    image = photograph()
    squeeze = np.array([[0.55, 0.15, 0], [0.0, 1.0, 0], [0, 0, 1]])
    size = (int(0.55 * image.shape[1] + 0.15 * image.shape[0]), image.shape[0])
    squeezed = cv2.warpAffine(
        cv2.GaussianBlur(image, (0, 0), 0.8), squeeze[:2], size, borderMode=cv2.BORDER_REPLICATE
    )
    repeated = {}
    for kind in ("laplace", "affine"):
        frames, others = (
            detect(picture, f"{family}_{kind}", 300, oriented=False).frames
            for picture in (image, squeezed)
        )
        rows, _, _ = overlapping_pairs(transform_frames(frames, squeeze), others, 0.7)
        repeated[kind] = len(np.unique(rows))
    assert repeated["laplace"] < 3
    assert repeated["affine"] > 15


def test_orb_and_fast_take_a_twelfth_of_orb_s_patch_as_radius():
    image = photograph()
    ratio = radii(detect(image, "orb", 500).frames) / (31 / 12)
    octaves = np.log(ratio) / np.log(1.2)
    np.testing.assert_allclose(octaves, octaves.round(), atol=1e-3)
    assert octaves.min() == pytest.approx(0, abs=1e-3) and octaves.max() > 3
    np.testing.assert_allclose(radii(detect(image, "fast", 50).frames), 31 / 12)


@pytest.mark.parametrize(
    ("name", "create"),
    [("dog", cv2.SIFT_create), ("orb", cv2.ORB_create), ("fast", cv2.FastFeatureDetector_create)],
)
def test_keypoints_of_opencv_s_own_detectors_convert_to_the_same_radii(name, create):
    image = photograph()
    keypoints = create().detect(image)
    own = radii(frames_from_keypoints(keypoints, RADIUS_PER_SIZE[name]))
    ours = radii(detect(image, name).frames)
    assert own.min() == pytest.approx(ours.min(), rel=0.1)
    assert own.max() == pytest.approx(ours.max(), rel=0.1)


@pytest.mark.parametrize("detector", DETECTORS)
def test_the_strongest_come_first_and_stay(detector):
    image = photograph("camera")
    everything = detect(image, detector)
    assert everything.frames.shape == (len(everything.responses), 2, 3)
    assert len(everything.frames) > 200
    assert (np.diff(everything.responses) <= 0).all()
    few = detect(image, detector, max_frames=20)
    if detector != "orb":  # which gives each level its share
        np.testing.assert_allclose(few.responses, everything.responses[:20])
    assert len(few.frames) == 20
    again = detect(image, detector, max_frames=20)
    np.testing.assert_array_equal(few.frames, again.frames)


def test_orb_has_no_limit_unless_one_is_given():
    noise = np.random.default_rng(0).integers(0, 256, (100, 100), np.uint8)
    image = np.kron(noise, np.ones((6, 6), np.uint8))
    assert len(detect(image, "orb").frames) > 15_000


@pytest.mark.parametrize("detector", DETECTORS)
def test_upright_frames_are_not_turned_and_stand_alone(detector):
    frames = detect(photograph("camera"), detector, 300, oriented=False).frames
    np.testing.assert_allclose(angles(frames), 0, atol=1e-6)
    assert len(np.unique(frames, axis=0)) == len(frames)
    turned = detect(photograph("camera"), detector, 300).frames
    assert np.std(angles(turned)) > 1


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_mask_leaves_out_centres(detector):
    image = photograph("camera")
    mask = np.zeros_like(image)
    mask[:, 256:] = 255
    found = detect(image, detector, 50, mask=mask)
    assert len(found.frames) == 50
    assert (found.frames[:, 0, 2] > 255).all()


@pytest.mark.parametrize("detector", DETECTORS)
@pytest.mark.parametrize("shape", [(1, 300), (7, 7), (20, 20), (200, 300)])
def test_images_without_structure_give_nothing(detector, shape):
    found = detect(np.full(shape, 128, np.uint8), detector)
    assert found.frames.shape == (0, 2, 3) and found.responses.shape == (0,)


def test_frames_turn_with_the_image():
    """A quarter turn of the picture turns every frame by a quarter, whatever the detector."""
    image = photograph("camera")
    turned = np.ascontiguousarray(np.rot90(image))  # (x, y) → (y, W − 1 − x)
    quarter = np.array([[0.0, 1, 0], [-1, 0, image.shape[1] - 1]])
    for detector in ("harris_laplace", "hessian_affine"):
        expected = compose(quarter, detect(image, detector, 200).frames)
        found = detect(turned, detector, 200).frames
        rows, columns, _ = overlapping_pairs(expected, found, 0.9)
        # The finest pixels decide between peaks of almost the same height.
        difference = angles(expected[rows]) - angles(found[columns])
        difference = np.abs((difference + np.pi) % (2 * np.pi) - np.pi)
        assert len(np.unique(rows)) > 120
        assert np.median(difference) < np.radians(1)
        assert np.percentile(difference, 80) < np.radians(5)


@pytest.mark.parametrize("detector", DETECTORS)
def test_a_mirrored_view_of_an_array_is_an_image_too(detector):
    image = photograph("chelsea")[:, ::-1]
    found, expected = (detect(picture, detector, 30) for picture in (image, image.copy()))
    np.testing.assert_array_equal(found.frames, expected.frames)


def test_orientation_agrees_with_sift():
    image = photograph()
    sift = detect(image, "dog").frames
    _, first, counts = np.unique(sift[:, :, 2], axis=0, return_index=True, return_counts=True)
    single = sift[first[counts == 1]]
    single = single[radii(single) > 2]
    upright = single.copy()
    upright[:, :, :2] = np.eye(2) * radii(single)[:, None, None]
    difference = angles(orient(image, upright)) - angles(single)
    difference = np.abs((difference + np.pi) % (2 * np.pi) - np.pi)
    assert len(single) > 100
    assert np.median(difference) < np.radians(5)
    assert np.mean(difference < np.radians(20)) > 0.75


def test_circles_are_oriented_as_ellipses_are():
    """The quick way for circles, at pixels of the image, against patches in frame coordinates."""
    image = photograph("camera")
    circles = detect(image, "hessian_laplace", oriented=False).frames
    circles = circles[radii(circles) > 1.6]
    ellipses = compose(circles, np.diag([1 + 1e-4, 1, 0])[:2])
    expected = angles(orient(image, ellipses))
    assert len(circles) > 300
    for turn in (0, 2.5):
        turned = compose(circles, similarity_frames(0, 0, 1, turn))
        found = orient(image, turned)
        difference = np.abs((angles(found) - expected + np.pi) % (2 * np.pi) - np.pi)
        assert np.median(difference) < np.radians(1)
        assert np.mean(difference < np.radians(10)) > 0.95
        np.testing.assert_allclose(radii(found), radii(circles))


@pytest.mark.parametrize(
    ("name", "create"),
    [
        ("dog", lambda: cv2.SIFT.create(enable_precise_upscale=True)),
        ("orb", lambda: cv2.ORB.create(nfeatures=80)),
        ("fast", cv2.FastFeatureDetector.create),
    ],
)
@pytest.mark.parametrize("oriented", [True, False])
def test_opencv_objects_give_what_their_names_give(name, create, oriented):
    image = photograph("camera")
    mask = np.zeros_like(image)
    mask[:, 100:] = 255
    found = detect(image, create(), 80, oriented, mask)
    expected = detect(image, name, 80, oriented, mask)
    assert len(found.frames) > 50
    np.testing.assert_array_equal(found.frames, expected.frames)
    np.testing.assert_array_equal(found.responses, expected.responses)


def test_keypoints_of_other_opencv_detectors_keep_size_and_angle():
    image = photograph("camera")
    keypoints = cv2.xfeatures2d.AKAZE.create().detect(image)
    found = detect(image, cv2.xfeatures2d.AKAZE.create(), 40)
    strongest = sorted(keypoints, key=lambda keypoint: -keypoint.response)[:40]
    np.testing.assert_array_equal(found.frames, frames_from_keypoints(strongest))
    np.testing.assert_array_equal(found.responses, [k.response for k in strongest])


class Fixed:
    """Returns what it is told to."""

    def __init__(self, found):
        self.found = found

    def detect(self, image, mask=None):
        assert image.dtype == np.uint8 and image.ndim == 2
        return self.found


def test_keypoints_without_an_angle_are_oriented_one_by_one():
    image = photograph("camera")
    keypoints = [cv2.KeyPoint(200, 180, 30, 77.0, 2), cv2.KeyPoint(300, 260, 30, -1, 1)]
    upright = frames_from_keypoints(keypoints)
    found = detect(image, Fixed(keypoints)).frames
    np.testing.assert_array_equal(found[0], upright[0])
    np.testing.assert_array_equal(found[1:], orient(image, upright[1:]))
    flat = detect(image, Fixed(keypoints), oriented=False).frames
    np.testing.assert_allclose(angles(flat), 0, atol=1e-9)


def test_frames_of_an_object_are_taken_as_they_are():
    image = photograph("camera")
    frames = compose(similarity_frames([90, 200, 300], 150, 9, 0.7), np.diag([1.5, 0.8, 0])[:2])
    for oriented in (True, False):
        np.testing.assert_array_equal(detect(image, Fixed(frames), 2, oriented).frames, frames[:2])
    found = detect(image, Fixed(Detections(frames, np.array([0.1, 0.3, 0.2]))), 2)
    np.testing.assert_array_equal(found.frames, frames[[1, 2]])
    np.testing.assert_allclose(found.responses, [0.3, 0.2])
    for nothing in ([], (), np.zeros((0, 2, 3))):
        assert detect(image, Fixed(nothing)).frames.shape == (0, 2, 3)
    with pytest.raises(InputError, match=r"\(4, 3\)"):
        detect(image, Fixed(np.zeros((4, 3))))


@pytest.mark.parametrize(
    ("image", "detector", "mask", "message"),
    [
        (np.zeros((50, 50), np.uint8), "surf", None, "surf.*dog"),
        (np.zeros((50, 50), np.uint8), object(), None, "object.*detect"),
        (np.zeros((50, 50, 2), np.uint8), "dog", None, r"\[50, 50, 2\]"),
        (np.zeros((50, 50), np.int64), "dog", None, "int64"),
        (None, "dog", None, "is None: cv2.imread"),
        (np.zeros((50, 50), np.uint8), "dog", np.ones((5, 50), np.uint8), r"mask.*\(5, 50\)"),
    ],
)
def test_bad_input_is_named(image, detector, mask, message):
    with pytest.raises(InputError, match=message):
        detect(image, detector, mask=mask)


def test_a_negative_number_of_frames_is_refused():
    with pytest.raises(InputError, match="max_frames must not be negative, but is -1"):
        detect(np.zeros((50, 50), np.uint8), "dog", max_frames=-1)
