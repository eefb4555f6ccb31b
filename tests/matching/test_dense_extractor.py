import subprocess
import sys

import cv2
import numpy as np
import pytest

import doap_tf
from doap_tf.catalogue import ENTRIES, Entry
from doap_tf.errors import InputError
from doap_tf.features.dense_reader import DenseReader
from doap_tf.features.frames import similarity_frames
from doap_tf.matching.dense_extractor import DenseExtractor
from doap_tf.zoo import tflite_files
from tests.dense import small_model, small_network
from tests.features.pictures import photograph


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model())
    return path


@pytest.fixture(scope="module")
def extractor(model):
    return DenseExtractor(model, max_keypoints=300)


def test_the_strongest_keypoints_come_first_each_with_a_row(extractor):
    image = photograph()
    features = extractor.extract(image)
    assert features.descriptors.shape == (300, 16)
    np.testing.assert_allclose(np.linalg.norm(features.descriptors, axis=1), 1, atol=1e-5)
    assert (np.diff(features.responses) <= 0).all()
    assert features.image_size == image.shape[::-1]
    assert len(set(np.round(features.scales, 1))) == 4
    fewer = DenseExtractor.extract(extractor, image)
    np.testing.assert_array_equal(fewer.frames, features.frames)


def test_given_frames_are_described_at_their_level(extractor):
    image = photograph()
    features = extractor.extract(image)
    again = extractor.describe(image, features.frames[::-1])
    np.testing.assert_allclose(again.descriptors[::-1], features.descriptors, atol=1e-5)
    assert not again.responses.any()
    assert extractor.describe(image, np.zeros((0, 2, 3))).descriptors.shape == (0, 16)


def test_a_point_is_described_by_its_level_and_half_as_much_by_the_next(model):
    network, image = small_network(), photograph()[:256, :320]
    half = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    points = np.random.default_rng(0).uniform(5, 250, (20, 2)).astype(np.float32)
    frames = similarity_frames(*points.T, np.full(20, 1.6))

    def sampled(level, points):
        maps = network(level[np.newaxis, ..., np.newaxis].astype(np.float32))
        return network.sample(maps.features, points[np.newaxis])

    both = (sampled(image, points) + 0.5 * sampled(half, (points + 0.5) / 2 - 0.5)) / 1.5
    described = DenseExtractor(model, enlarge=False).describe(image, frames).descriptors
    np.testing.assert_allclose(described, network.project(both)[0], atol=1e-4)
    # The last level has no smaller one.
    small = image[:96, :96]
    described = DenseExtractor(model, enlarge=False).describe(small, frames[:9] / 4).descriptors
    alone = network.project(sampled(small, points[:9] / 4))[0]
    np.testing.assert_allclose(described, alone, atol=1e-4)


def test_keypoints_move_with_the_image(extractor):
    image = photograph()
    moved = np.roll(image, 32, axis=1)
    rows = [
        extractor.describe(shown, similarity_frames([x], [150], [1.6])).descriptors
        for shown, x in ((image, 200), (moved, 232))
    ]
    np.testing.assert_allclose(rows[0], rows[1], atol=0.05)


def test_a_mask_keeps_keypoints_out(extractor):
    image = photograph()
    mask = np.zeros(image.shape, np.uint8)
    mask[:, 200:] = 1
    features = extractor.extract(image, mask)
    assert len(features.points) and features.points[:, 0].min() >= 199.5
    with pytest.raises(InputError, match="mask has shape"):
        extractor.extract(image, mask[:10])


def test_a_large_image_is_shrunk_and_measured_in_its_own_pixels(model):
    image = photograph()
    large = cv2.resize(image, None, fx=3, fy=3, interpolation=cv2.INTER_CUBIC)
    small = DenseExtractor(model, 100, enlarge=False).extract(
        cv2.resize(large, image.shape[::-1], interpolation=cv2.INTER_AREA)
    )
    features = DenseExtractor(model, 100, max_image_size=max(image.shape)).extract(large)
    np.testing.assert_allclose((features.points + 0.5) / 3 - 0.5, small.points, atol=1e-6)
    np.testing.assert_allclose(features.scales, 3 * small.scales)


def test_a_small_image_is_enlarged_and_measured_in_its_own_pixels(model):
    image = photograph()[:300, :400]
    features = DenseExtractor(model, None).extract(image)
    enlarged = cv2.resize(image.astype(np.float32), (566, 424), interpolation=cv2.INTER_LINEAR)
    separate = DenseExtractor(model, None, enlarge=False)
    expected = separate.extract(np.rint(enlarged).astype(np.uint8))
    finest, same = features.scales < 1.6, expected.scales == expected.scales.min()
    assert finest.sum() == same.sum() > 0
    np.testing.assert_allclose(features.scales[finest], 1.6 / 2**0.5, rtol=1e-3)
    points = (expected.points[same] + 0.5) * [400 / 566, 300 / 424] - 0.5
    np.testing.assert_allclose(features.points[finest], points, atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1), (7, 300), (64, 64)])
def test_images_without_texture_have_no_keypoints(extractor, shape):
    features = extractor.extract(np.full(shape, 128, np.uint8))
    assert features.descriptors.shape == (0, 16) and features.frames.shape == (0, 2, 3)


def test_an_image_too_large_for_the_memory_is_said_in_one_line(model, monkeypatch):
    def read(self, image):
        raise MemoryError

    monkeypatch.setattr(DenseReader, "read", read)
    with pytest.raises(InputError, match="30 × 20 pixels needs more memory than there is"):
        DenseExtractor(model, enlarge=False).extract(np.zeros((20, 30), np.uint8))


def test_numbers_are_checked(model):
    with pytest.raises(InputError, match="max_keypoints must not be negative"):
        DenseExtractor(model, -1)


def test_a_training_directory_is_opened(model, extractor):
    opened = DenseExtractor(model.parent, 300)
    assert opened.settings()["weights_sha256"] == extractor.settings()["weights_sha256"]


def test_paths_are_known_everywhere(model):
    image = photograph()
    pair = doap_tf.match_images(image, image, model.parent, max_keypoints=50)
    np.testing.assert_array_equal(pair.indices[:, 0], pair.indices[:, 1])
    assert len(pair.indices) == 50
    assert doap_tf.from_pretrained(model).dimension == 16
    extractor = doap_tf.DescriptorExtractor(model.parent, max_keypoints=50, max_image_size=200)
    assert isinstance(extractor, DenseExtractor)
    assert (extractor.max_keypoints, extractor.max_image_size) == (50, 200)
    keypoints, rows = extractor.detectAndCompute(image)
    assert len(keypoints) == 50 and rows.shape == (50, 16)
    np.testing.assert_allclose(extractor.compute(image, keypoints)[1], rows, atol=1e-4)
    with pytest.raises(InputError, match="keypoints of its own: give neither a detector"):
        doap_tf.DescriptorExtractor(model, "dog")
    with pytest.raises(InputError, match="doap-fast-128 reads patches, not whole images"):
        DenseExtractor("doap-fast-128")


def test_names_of_the_catalogue_are_known(model, extractor, monkeypatch):
    monkeypatch.setitem(ENTRIES, "doap-dense", Entry("doap-dense", "extractor"))
    monkeypatch.setattr(tflite_files, "tflite_file", lambda name, precision: model)
    named = doap_tf.DescriptorExtractor("doap-dense", max_keypoints=300)
    assert isinstance(named, DenseExtractor)
    expected = extractor.settings() | {"descriptor": "doap-dense"}
    assert named.settings() == expected


def test_descriptors_of_patches_stand_beside(model, extractor):
    image = photograph()
    features = extractor.extract(image)
    patches = doap_tf.DescriptorExtractor("doap-fast-128").describe(image, features.frames)
    both = doap_tf.DescriptorExtractor(f"{model}+doap-fast-128", max_keypoints=300)
    joined = both.extract(image)
    np.testing.assert_array_equal(joined.frames, features.frames)
    assert joined.descriptors.shape[1] == both.dimension == 16 + 128
    expected = np.hstack([0.7**0.5 * features.descriptors, 0.3**0.5 * patches.descriptors])
    np.testing.assert_allclose(joined.descriptors, expected, atol=1e-6)
    again = both.describe(image, joined.frames).descriptors
    np.testing.assert_allclose(again, expected, atol=1e-5)
    other = DenseExtractor(f"{model}+rootsift", max_keypoints=300)
    assert len({str(each.settings()["patches"]) for each in (both, other)}) == 2
    turned = DenseExtractor(f"{model}+doap-fast-128", 300, oriented=True)
    assert turned.settings()["oriented"] and not both.settings()["oriented"]
    assert np.ptp(turned.extract(image).angles) > 1
    for names, error in (
        (f"{model}+doap-fast-256b", "joins values and bits: both must be of one kind"),
        (f"{model}+nothing", "'nothing' is neither a file or folder"),
        (f"{model}+{model}", "reads whole images, not patches"),
    ):
        with pytest.raises(InputError, match=error):
            DenseExtractor(names)


def test_bits_stand_side_by_side(tmp_path):
    (tmp_path / "bits.tflite").write_bytes(small_model("binary"))
    image = photograph()
    alone = DenseExtractor(tmp_path / "bits.tflite", 40).extract(image)
    joined = DenseExtractor(f"{tmp_path / 'bits.tflite'}+doap-tiny-256b", 40).extract(image)
    width = alone.descriptors.shape[1]
    np.testing.assert_array_equal(joined.descriptors[:, :width], alone.descriptors)
    assert joined.descriptors.shape[1] == width + 32


def test_a_path_may_contain_the_sign(model, tmp_path):
    path = tmp_path / "a+b.tflite"
    path.write_bytes(model.read_bytes())
    assert isinstance(doap_tf.DescriptorExtractor(path, max_keypoints=10), DenseExtractor)


def test_contrast_does_not_matter(extractor):
    image = photograph()
    flat = np.rint(21 + image * (22 / 255)).astype(np.uint8)
    assert flat.min() >= 21 and flat.max() <= 43
    full, weak = extractor.extract(image), extractor.extract(flat)
    assert len(full.frames) == len(weak.frames) == 300


@pytest.mark.parametrize("quarters", range(4))
def test_a_turned_image_is_matched_in_its_own_pixels(model, quarters):
    image = photograph()
    turned = np.ascontiguousarray(np.rot90(image, -quarters))
    settings = {"geometry": "homography", "max_keypoints": 200}
    pair = doap_tf.match_images(image, turned, model, rotations="auto", **settings)
    assert pair.reliable and pair.turn == 90 * quarters
    assert pair.features2.image_size == turned.shape[::-1]
    x1, y1 = np.rint(pair.points1[pair.inliers]).astype(int).T
    x2, y2 = np.rint(pair.points2[pair.inliers]).astype(int).T
    assert np.median(np.abs(image[y1, x1].astype(int) - turned[y2, x2])) <= 1
    if quarters:
        upright = doap_tf.match_images(image, turned, model, rotations="none", **settings)
        assert not upright.reliable


def test_what_cannot_be_matched_stays_upright(model):
    noise = np.random.default_rng(0).integers(0, 256, (2, 90, 120), np.uint8)
    pair = doap_tf.match_images(*noise, model, rotations="auto", geometry=None)
    assert pair.turn == 0 and pair.reliable is None
    one = np.full((1, 1), 9, np.uint8)
    pair = doap_tf.match_images(one, noise[0], model, rotations="auto")
    assert (len(pair.indices), pair.reliable, pair.turn) == (0, False, 0)
    with pytest.raises(InputError, match="rotations must be one of none, auto"):
        doap_tf.match_images(*noise, model, rotations="all")


def test_settings_identify_the_weights(model, extractor):
    assert (
        extractor.settings()["weights_sha256"] == DenseExtractor(model).settings()["weights_sha256"]
    )
    assert extractor.settings() != DenseExtractor(model).settings()


def test_nothing_is_announced(model):
    program = f"""
import numpy as np
from doap_tf.matching import DenseExtractor
DenseExtractor({str(model)!r}).extract(np.arange(4096, dtype=np.uint8).reshape(64, 64))
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")
