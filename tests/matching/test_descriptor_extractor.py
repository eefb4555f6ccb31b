import json

import cv2
import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf.descriptors import pooled_descriptor
from doap_tf.errors import InputError
from doap_tf.features import (
    RADIUS_PER_SIZE,
    adapt_shape,
    cut_patches,
    detect,
    frames_from_keypoints,
    orient,
    radii,
    similarity_frames,
)
from doap_tf.matching import DescriptorExtractor, MatchStore
from doap_tf.zoo import load_descriptor
from tests.features.pictures import photograph
from tests.matching.scene import views


def network(**kwargs):
    from doap_tf.networks import DescriptorNetwork

    return doap_tf.Descriptor(DescriptorNetwork(width=0.25, **kwargs))


def awkward_keypoints():
    """Inside, on the border, outside, tiny, huge, twice the same, with and without an angle."""
    values = [
        (50, 60, 12, 30),
        (0, 0, 12, -1),
        (399, 299, 40, 200),
        (-90, 1000, 12, 10),
        (200, 150, 0.01, 0),
        (200, 150, 3000, 0),
        (50, 60, 12, 30),
    ]
    return [cv2.KeyPoint(*map(float, value)) for value in values]


@pytest.mark.parametrize("name", ["sift", "rootsift", "pixels", "orb"])
def test_compute_gives_a_row_for_every_keypoint_in_order(name):
    image = views()[0]
    extractor = DescriptorExtractor(name)
    keypoints = awkward_keypoints()
    given, rows = extractor.compute(image, keypoints)
    assert given is keypoints and rows.shape == (7, extractor.descriptorSize())
    np.testing.assert_array_equal(rows[0], rows[6])
    _, backwards = extractor.compute(image, keypoints[::-1])
    np.testing.assert_array_equal(backwards[::-1], rows)
    assert len(np.unique(rows[:4], axis=0)) == 4


@pytest.mark.parametrize("detector", ["dog", "orb", "fast"])
def test_a_patch_covers_the_magnified_size_of_its_keypoint(detector):
    image = views()[0]
    extractor = DescriptorExtractor("pixels", detector=detector, magnification=4)
    # Half a side of 32 pixels, centred between pixels: patches of 64 are the image's own pixels.
    size = 32 / 4 / RADIUS_PER_SIZE[detector]
    centre = (120.5, 99.5)
    rows = extractor.compute(image, [cv2.KeyPoint(*centre, size)])[1]
    crop = image[68:132, 89:153]
    np.testing.assert_allclose(rows, load_descriptor("pixels").describe(crop[None]))


def test_the_descriptors_own_magnification_is_the_default():
    descriptor = load_descriptor("vgg")
    assert (
        DescriptorExtractor(descriptor).frame_descriptor.magnification == descriptor.magnification
    )


@pytest.mark.parametrize("name", ["pixels", "orb"])
@pytest.mark.parametrize("magnification", [9, (9,), np.array([9.0])])
def test_one_magnification_is_the_descriptor_itself(name, magnification):
    image = views()[0]
    frames = detect(image, max_frames=30).frames
    extractor = DescriptorExtractor(name, magnification=magnification)
    expected = load_descriptor(name).describe(cut_patches(image, frames, 64, 9))
    np.testing.assert_array_equal(extractor.compute(image, frames)[1], expected)
    assert extractor.frame_descriptor.magnification == extractor.settings()["magnification"] == 9


def described(descriptor, image, frames, magnifications, size=64):
    """Rows [M, N, D] at each of the magnifications."""
    cut = [cut_patches(image, frames, size, magnification) for magnification in magnifications]
    return np.stack([descriptor.describe(patches) for patches in cut])


@pytest.mark.parametrize("name", ["network", "sift", "pixels"])
@pytest.mark.parametrize("magnifications", [(6, 20), (14, 4, 9)])
def test_values_are_pooled_by_their_mean_direction(name, magnifications):
    image = views()[0]
    frames = detect(image, max_frames=20).frames
    descriptor = network(output_dim=64) if name == "network" else load_descriptor(name)
    size = 32 if name == "network" else 64
    rows = DescriptorExtractor(descriptor, magnification=magnifications).compute(image, frames)[1]
    parts = described(descriptor, image, frames, magnifications, size).astype(np.float64)
    for row, *of_frame in zip(rows, *parts, strict=True):
        mean = sum(of_frame) / len(of_frame)
        length = max(np.sqrt(np.sum(part**2)) for part in of_frame)
        expected = mean / np.sqrt(np.sum(mean**2)) * length
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5 * length)
        assert name != "network" or np.isclose(np.linalg.norm(row), 1, rtol=1e-5)
    assert rows.dtype == np.float32
    assert np.abs(rows - parts[0]).max() > 0.1


def test_bits_are_pooled_by_their_majority():
    image = views()[0]
    frames = detect(image, max_frames=20).frames
    orb = load_descriptor("orb")
    rows = DescriptorExtractor(orb, magnification=(6, 4, 9)).compute(image, frames)[1]
    bits = np.unpackbits(described(orb, image, frames, (6, 4, 9)), axis=2)
    expected = np.zeros(bits.shape[1:], np.uint8)
    for place in np.ndindex(*expected.shape):
        votes = bits[(slice(None), *place)].tolist()
        expected[place] = votes.count(1) > votes.count(0)
    np.testing.assert_array_equal(np.unpackbits(rows, axis=1), expected)
    assert rows.dtype == np.uint8 and (expected != bits[0]).any()


def test_patches_without_contrast_are_pooled_to_finite_rows():
    image = views()[0].copy()
    image[100:200, 100:200] = 90
    frames = similarity_frames(150, 150, 2)
    blank = DescriptorExtractor("pixels", magnification=(4, 9)).compute(image, frames)[1]
    np.testing.assert_array_equal(blank, np.zeros((1, 121)))
    wide = DescriptorExtractor("pixels", magnification=60).compute(image, frames)[1]
    pooled = DescriptorExtractor("pixels", magnification=(4, 60)).compute(image, frames)[1]
    np.testing.assert_allclose(pooled, wide, rtol=1e-5)


def test_pictures_show_patches_of_the_first_magnification():
    image = views()[0]
    frames = detect(image, max_frames=5).frames
    patches = DescriptorExtractor("pixels", magnification=(9, 4)).frame_descriptor.cut(
        image, frames
    )
    np.testing.assert_array_equal(patches, cut_patches(image, frames, 64, 9))


def test_work_at_other_magnifications_is_not_taken_for_the_same(tmp_path):
    pooled = DescriptorExtractor("pixels", magnification=[8, 28]).settings()
    assert pooled["magnification"] == (8, 28) and json.dumps(pooled)
    with MatchStore(tmp_path / "finished.db", pooled):
        pass
    with MatchStore(tmp_path / "finished.db", pooled):
        pass
    for other in (8, (28, 8), (8, 14, 28)):
        settings = DescriptorExtractor("pixels", magnification=other).settings()
        with pytest.raises(InputError, match=r"magnification = \[8.0, 28.0\]"):
            MatchStore(tmp_path / "finished.db", settings)


def test_a_store_belongs_to_a_backend(tmp_path):
    fast, exact = (
        DescriptorExtractor(doap_tf.from_pretrained("doap-128", backend)).settings()
        for backend in ("litert", "keras")
    )
    assert (fast["backend"], fast["precision"]) == ("litert", "float32")
    with MatchStore(tmp_path / "finished.db", fast):
        pass
    with pytest.raises(InputError, match="backend = litert, not keras"):
        MatchStore(tmp_path / "finished.db", exact)


@pytest.mark.parametrize("detector", ["dog", "harris_laplace", "fast", "orb"])
def test_detecting_then_computing_is_detecting_and_computing(detector):
    image = views()[0]
    extractor = DescriptorExtractor("pixels", detector=detector, max_keypoints=40)
    keypoints, rows = extractor.detectAndCompute(image, None)
    detected = extractor.detect(image)
    assert [k.pt for k in detected] == [k.pt for k in keypoints] and len(keypoints) == 40
    # Sizes and angles pass through OpenCV's single precision.
    np.testing.assert_allclose(extractor.compute(image, detected)[1], rows, atol=0.05)


@pytest.mark.parametrize(
    ("detector", "create"),
    [
        ("dog", lambda: cv2.SIFT.create(enable_precise_upscale=True)),
        ("orb", lambda: cv2.ORB.create(nfeatures=10_000)),
        ("fast", cv2.FastFeatureDetector.create),
    ],
)
def test_keypoints_have_the_sizes_of_opencvs_own(detector, create):
    image = views()[0]
    ours = DescriptorExtractor("pixels", detector=detector).detect(image)
    theirs = create().detect(image)
    np.testing.assert_allclose(
        sorted((*k.pt, k.size) for k in ours), sorted((*k.pt, k.size) for k in theirs), rtol=1e-4
    )


class AffineCorners:
    """A detector of one's own: corners of OpenCV, their affine shape, their orientation."""

    def detect(self, image, mask=None):
        keypoints = cv2.GFTTDetector.create(60, blockSize=9).detect(image, mask)
        ellipses, _ = adapt_shape(image, frames_from_keypoints(keypoints))
        return orient(image, ellipses)


@pytest.mark.parametrize("name", ["rootsift", "pixels"])
def test_a_detector_of_ones_own(name):
    image = views()[0]
    extractor = DescriptorExtractor(name, detector=AffineCorners(), max_keypoints=20)
    features = extractor.extract(image)
    frames = AffineCorners().detect(image)[:20]
    assert len(frames) == 20
    np.testing.assert_array_equal(features.frames, frames)
    expected = load_descriptor(name)
    patches = cut_patches(image, frames, 64, expected.magnification)
    np.testing.assert_array_equal(features.descriptors, expected.describe(patches))
    keypoints, rows = extractor.detectAndCompute(image, None)
    np.testing.assert_array_equal(rows, features.descriptors)
    np.testing.assert_allclose([k.pt for k in keypoints], frames[:, :, 2], rtol=1e-5)


@pytest.mark.parametrize("name", ["rootsift", "pixels"])
def test_detectors_of_opencv_are_taken_as_objects(name):
    image = views()[0]
    akaze = cv2.xfeatures2d.AKAZE.create()
    extractor = DescriptorExtractor(name, detector=akaze, max_keypoints=50)
    keypoints, rows = extractor.detectAndCompute(image, None)
    strongest = sorted(akaze.detect(image), key=lambda keypoint: -keypoint.response)[:50]
    for found, expected in zip(keypoints, strongest, strict=True):
        np.testing.assert_allclose(
            (*found.pt, found.size, found.angle),
            (*expected.pt, expected.size, expected.angle),
            rtol=1e-4,
        )
    np.testing.assert_allclose(extractor.compute(image, strongest)[1], rows, atol=1e-3)


@pytest.mark.parametrize(
    ("detector", "create"),
    [
        ("dog", lambda: cv2.SIFT.create(enable_precise_upscale=True)),
        ("orb", lambda: cv2.ORB.create(nfeatures=40)),
        ("fast", cv2.FastFeatureDetector.create),
    ],
)
def test_objects_of_named_detectors_are_the_same(detector, create):
    image = views()[0]
    named = DescriptorExtractor("sift", detector=detector, max_keypoints=40)
    given = DescriptorExtractor("sift", detector=create(), max_keypoints=40)
    keypoints, rows = given.detectAndCompute(image, None)
    expected_keypoints, expected = named.detectAndCompute(image, None)
    np.testing.assert_array_equal(rows, expected)
    for found, wanted in zip(keypoints, expected_keypoints, strict=True):
        assert (found.pt, found.size, found.octave) == (wanted.pt, wanted.size, wanted.octave)
    np.testing.assert_array_equal(
        given.compute(image, keypoints)[1], named.compute(image, keypoints)[1]
    )


def test_a_descriptor_without_magnification_is_told_one():
    class Means:
        norm, dimension = cv2.NORM_L2, 1

        def describe(self, patches, batch_size=1024):
            return patches.mean(axis=(1, 2), keepdims=True, dtype=np.float32)[:, 0]

    image = views()[0]
    frames = detect(image, max_frames=5).frames
    rows = DescriptorExtractor(Means(), magnification=4).compute(image, frames)[1]
    np.testing.assert_allclose(rows[:, 0], cut_patches(image, frames, 64, 4).mean(axis=(1, 2)))
    with pytest.raises(InputError, match="magnification"):
        DescriptorExtractor(Means())


def test_affine_frames_are_taken_as_they_are():
    image = views()[0]
    extractor = DescriptorExtractor("pixels", detector="harris_affine", max_keypoints=30)
    features = extractor.extract(image)
    frames, rows = extractor.compute(image, features.frames)
    assert frames is features.frames
    np.testing.assert_array_equal(rows, features.descriptors)
    circles = extractor.compute(image, features.keypoints)[1]
    assert np.abs(circles - rows).max() > 0.5


def test_sift_on_ellipses_is_described_on_patches():
    image = views()[0]
    frames = DescriptorExtractor("sift", detector="harris_affine").extract(image).frames[:8]
    rows = DescriptorExtractor("sift", detector="harris_affine").compute(image, frames)[1]
    stretched = frames.copy()
    stretched[:, :, 0] *= 3
    changed = DescriptorExtractor("sift", detector="harris_affine").compute(image, stretched)[1]
    assert (np.abs(rows - changed).max(axis=1) > 10).all()


@pytest.mark.parametrize("name", ["rootsift", "pixels", "beblid"])
def test_an_image_without_features_gives_empty_arrays(name):
    extractor = DescriptorExtractor(name)
    blank = np.full((80, 90), 128, np.uint8)
    keypoints, rows = extractor.detectAndCompute(blank, None)
    assert keypoints == [] and rows.shape == (0, extractor.descriptorSize())
    assert rows.dtype == (np.uint8 if extractor.descriptorType() == cv2.CV_8U else np.float32)
    assert extractor.compute(blank, [])[1].shape == rows.shape
    if name != "rootsift":
        pooled = DescriptorExtractor(name, magnification=(4, 6, 9)).compute(blank, [])[1]
        assert pooled.shape == rows.shape and pooled.dtype == rows.dtype
    assert extractor.extract(blank).image_size == (90, 80)


def test_nothing_is_detected_where_the_mask_is_zero():
    image = views()[0]
    mask = np.zeros(image.shape, np.uint8)
    mask[:, :200] = 255
    keypoints, rows = DescriptorExtractor("pixels").detectAndCompute(image, mask)
    assert len(keypoints) == len(rows) > 20
    assert max(keypoint.pt[0] for keypoint in keypoints) < 200.5
    with pytest.raises(InputError, match="mask"):
        DescriptorExtractor("pixels").detectAndCompute(image, mask[1:])


@pytest.mark.parametrize("magnification", [None, (4, 6, 9)])
def test_chunks_do_not_matter(magnification, monkeypatch):
    image = views()[0]
    frames = detect(image, max_frames=50).frames
    extractor = DescriptorExtractor("pixels", magnification=magnification)
    whole = extractor.compute(image, frames)[1]
    monkeypatch.setattr(pooled_descriptor, "_CHUNK", 7)
    np.testing.assert_array_equal(extractor.compute(image, frames)[1], whole)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"descriptor": "pixels", "detector": "surf"}, "surf.*dog"),
        ({"descriptor": "pixels", "magnification": 0.0}, "magnification.*above 0.*not 0.0"),
        ({"descriptor": "pixels", "magnification": float("nan")}, "magnification.*nan"),
        ({"descriptor": "pixels", "magnification": ()}, r"magnification.*\(\)"),
        ({"descriptor": "pixels", "magnification": (8, -1)}, r"magnification.*\(8, -1\)"),
        ({"descriptor": "orb", "magnification": (8, 28)}, "odd number.*2"),
        ({"descriptor": "pixels", "max_keypoints": -1}, "max_keypoints"),
        ({"descriptor": object()}, "object has no describe"),
    ],
)
def test_bad_arguments_are_named(kwargs, message):
    with pytest.raises(InputError, match=message):
        DescriptorExtractor(**kwargs)


def test_an_unknown_network_is_named():
    with pytest.raises(InputError, match="no-such-network"):
        DescriptorExtractor("no-such-network")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        cv2.error("OpenCV(5.0.0) alloc.cpp:52: error: (-4:Insufficient memory) Failed to allocate"),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
    ],
    ids=["NumPy", "OpenCV", "TensorFlow"],
)
def test_too_little_memory_is_said_with_the_size_of_the_image(error):
    class Large:
        def detect(self, image, mask=None):
            raise error

    with pytest.raises(InputError, match=r"400 × 300 pixels.*memory.*smaller"):
        DescriptorExtractor("pixels", Large()).extract(views()[0])


def test_real_networks_drop_into_opencv():
    image, other = views()
    extractor = doap_tf.DescriptorExtractor(network(output_dim=64), max_keypoints=60)
    keypoints, rows = extractor.detectAndCompute(image, None)
    _, others = extractor.detectAndCompute(other, None)
    assert (extractor.descriptorSize(), extractor.descriptorType()) == (64, cv2.CV_32F)
    assert rows.shape == (len(keypoints), 64) and rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    exact = cv2.BFMatcher(extractor.defaultNorm()).match(rows, others)
    flann = cv2.FlannBasedMatcher({"algorithm": 1, "trees": 4}, {"checks": 1000})
    assert len(exact) == len(flann.match(rows, others)) == len(rows)
    # The network sees patches at its own size and magnification, nothing is resized.
    frames = extractor.extract(image).frames
    patches = extractor.frame_descriptor.cut(image, frames)
    assert patches.shape == (len(frames), 32, 32)
    np.testing.assert_allclose(
        extractor.frame_descriptor.descriptor.describe(patches), rows, atol=1e-5
    )


def test_binary_networks_drop_into_opencv():
    image, other = views()
    extractor = doap_tf.DescriptorExtractor(network(output_dim=64, head="binary"), max_keypoints=60)
    _, rows = extractor.detectAndCompute(image)
    _, others = extractor.detectAndCompute(other)
    assert (extractor.descriptorSize(), extractor.descriptorType()) == (8, cv2.CV_8U)
    assert extractor.defaultNorm() == cv2.NORM_HAMMING
    assert rows.shape[1] == 8 and rows.dtype == np.uint8
    assert len(cv2.BFMatcher(extractor.defaultNorm()).match(rows, others)) == len(rows)
    empty = extractor.compute(image, [])[1]
    assert empty.shape == (0, 8) and empty.dtype == np.uint8


def test_large_images_are_shrunk_and_frames_are_in_pixels_of_the_original():
    image = photograph("camera")[:300, :401]
    extractor = DescriptorExtractor("sift", "dog", 100, max_image_size=200)
    found = extractor.extract(image)
    small = cv2.resize(image, (200, 150), interpolation=cv2.INTER_AREA)
    wanted = DescriptorExtractor("sift", "dog", 100).extract(small)
    assert found.image_size == (401, 300) and len(found.frames) > 50
    ratio = np.array([401 / 200, 2])
    np.testing.assert_allclose(found.points + 0.5, (wanted.points + 0.5) * ratio)
    np.testing.assert_allclose(radii(found.frames), radii(wanted.frames) * np.sqrt(ratio.prod()))
    np.testing.assert_array_equal(found.descriptors, wanted.descriptors)
    assert extractor.settings()["max_image_size"] == 200
    large = DescriptorExtractor("sift", "dog", 100, max_image_size=401).extract(image)
    np.testing.assert_array_equal(large.frames, detect(image, "dog", 100).frames)
    mask = np.zeros_like(image)
    mask[:, 200:] = 255
    assert (extractor.detect_frames(image, mask).frames[:, 0, 2] > 195).all()
    with pytest.raises(InputError, match=r"mask has shape \(50, 70\); expected the image's"):
        extractor.extract(image, np.ones((50, 70), np.uint8))
    with pytest.raises(InputError, match="max_image_size must not be negative, but is -1"):
        DescriptorExtractor("sift", max_image_size=-1)
