import subprocess
import sys
import threading

import cv2
import numpy as np
import pytest

from doap_tf.catalogue import ENTRIES
from doap_tf.errors import InputError
from doap_tf.features import (
    LearnedDetector,
    detect,
    inside,
    learned,
    orient,
    radii,
    scale_frames,
    score_maxima,
    transform_frames,
)
from doap_tf.matching import DescriptorExtractor
from tests.features.pictures import photograph

SHIPPED = ENTRIES["learned"].file(".tflite")


@pytest.fixture(scope="module")
def detector():
    return LearnedDetector()


def smooth_noise(shape, seed, sigma=1.2):
    noise = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return 9 * cv2.GaussianBlur(noise, (0, 0), sigma)


def test_maxima_are_those_of_a_search_pixel_by_pixel():
    scores = smooth_noise((60, 83), 0)
    expected = [
        (x, y)
        for y in range(4, 56)
        for x in range(4, 79)
        if scores[y, x] > 0.5 and (scores[y - 2 : y + 3, x - 2 : x + 3] >= scores[y, x]).sum() == 1
    ]
    x, y, score = score_maxima._maxima(scores, 0.5)
    assert len(expected) > 50
    nearest = np.stack([np.rint(x), np.rint(y)], 1).astype(int)
    assert np.abs(nearest - expected).max() <= 1
    np.testing.assert_array_equal(score, [scores[y, x] for x, y in expected])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_keypoints_lie_where_the_scores_of_their_level_peak(detector, monkeypatch, level):
    """Gaussian peaks at known places of the image, in the scores of one level."""
    grid = 25.0 * np.mgrid[1:5, 1:6].reshape(2, -1).T
    centres = grid + np.random.default_rng(1).uniform(-1, 1, grid.shape)
    shapes = [(130, 162), (92, 115), (65, 81)]
    height, width = shapes[level]
    y, x = np.mgrid[:height, :width]
    y, x = (y + 0.5) * 130 / height - 0.5, (x + 0.5) * 162 / width - 0.5
    sigma = 1.5 * 2 ** (level / 2)
    scores = sum(
        20 * np.exp(-((x - right) ** 2 + (y - down) ** 2) / 2 / sigma**2) for down, right in centres
    )
    monkeypatch.setattr(
        detector,
        "_scores",
        lambda image, *_: (scores if image.shape == shapes[level] else np.zeros(image.shape)) - 3,
    )
    points = detector.detect(np.random.default_rng(0).integers(0, 255, shapes[0], np.uint8))
    order = np.lexsort([points.x, np.rint(points.y / 25)])
    np.testing.assert_allclose(points.x[order], centres[:, 1], atol=0.1 * sigma / 1.5)
    np.testing.assert_allclose(points.y[order], centres[:, 0], atol=0.1 * sigma / 1.5)
    np.testing.assert_allclose(points.sigma, 1.6 * 2 ** (level / 2))


def test_a_plateau_has_no_maximum():
    scores = smooth_noise((60, 80), 2)
    scores[20:40, 30:50] = 99
    score = score_maxima._maxima(scores, 0)[2]
    assert len(score) > 20 and score.max() < 99


@pytest.mark.parametrize("shape", [(150, 203), (37, 41), (9, 300)])
def test_strips_give_the_scores_of_the_whole(detector, monkeypatch, shape):
    image = photograph("camera")[200 : 200 + shape[0], : shape[1]]
    whole = detector._scores(image)
    assert whole.shape == shape and whole.std() > 1
    monkeypatch.setattr(learned, "_STRIP_PIXELS", 0)
    for rows in (1, 41, 70):
        monkeypatch.setattr(learned, "_STRIP_ROWS", rows)
        np.testing.assert_array_equal(detector._scores(image), whole)


def test_no_strip_is_larger_than_the_limit(detector, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        detector, "_run", lambda image: sizes.append(image.size) or image.astype(np.float32)
    )
    image = np.random.default_rng(0).integers(0, 255, (2000, 3000), np.uint8)
    np.testing.assert_array_equal(detector._scores(image), image)
    assert len(sizes) > 20 and max(sizes) <= learned._STRIP_PIXELS


@pytest.mark.parametrize("value", [0, 128, 255])
@pytest.mark.parametrize("threshold", [0, -np.inf])
def test_images_without_texture_have_no_keypoints(value, threshold):
    points = LearnedDetector(threshold=threshold).detect(np.full((200, 300), value, np.uint8))
    assert len(points.x) == 0


def test_keypoints_depend_neither_on_brightness_nor_on_contrast(detector):
    image = photograph("camera")[100:400, 100:450] // 3
    expected, found = (detector.detect(grey) for grey in (image, 2 * image + 40))
    first = expected.sigma == expected.sigma[0]  # smaller levels are rounded to bytes
    count = first.sum()
    assert count > 200
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(one[:count], other[:count], atol=2e-3)


def test_a_faint_image_has_as_many_keypoints(detector):
    image = photograph("camera")
    faint = np.rint(21 + image / 255 * 22).astype(np.uint8)
    counts = [len(detector.detect(grey).x) for grey in (image, faint)]
    assert counts[1] > 0.75 * counts[0]


def test_hardly_visible_noise_has_almost_no_keypoints(detector):
    noise = np.random.default_rng(0).normal(128, 0.5, (300, 300))
    assert len(detector.detect(np.rint(noise).astype(np.uint8)).x) < 20


@pytest.mark.parametrize("shape", [(8, 8), (9, 40), (31, 12), (33, 33)])
def test_images_smaller_than_the_receptive_field_work(shape):
    image = photograph("camera")[200 : 200 + shape[0], 200 : 200 + shape[1]]
    for oriented in (True, False):
        frames = detect(image, "learned", oriented=oriented).frames
        assert np.isfinite(frames).all()
        assert (frames[:, :, 2] >= 0).all() and (frames[:, :, 2] < shape[::-1]).all()


@pytest.mark.parametrize(("angle", "scale"), [(40, 1), (-100, 0.7), (15, 1.4)])
def test_keypoints_follow_rotation_and_scale(angle, scale):
    image = cv2.resize(photograph("camera"), (256, 256), interpolation=cv2.INTER_AREA)
    turn = np.vstack([cv2.getRotationMatrix2D((127.5, 127.5), angle, scale), [0, 0, 1]])
    smooth = cv2.GaussianBlur(image, (0, 0), 0.5 / scale) if scale < 1 else image
    turned = cv2.warpAffine(smooth, turn[:2], (256, 256), borderMode=cv2.BORDER_REFLECT)
    frames = transform_frames(detect(image, "learned", 300).frames, turn)
    frames = frames[inside(scale_frames(frames, 5), (256, 256))]
    others = detect(turned, "learned", 600).frames
    distance = np.linalg.norm(frames[:, None, :, 2] - others[:, :, 2], axis=2)
    ratio = radii(frames)[:, None] / radii(others)
    same = (distance < 2) & (np.abs(np.log2(ratio)) < 0.75)
    assert len(frames) > 60
    assert same.any(axis=1).mean() > 0.4


def test_threads_take_turns(detector):
    images = [photograph("camera")[:200, : 150 + 20 * number] for number in range(4)]
    expected = [detector.detect(image) for image in images]
    found = {}
    threads = [
        threading.Thread(target=lambda n=number: found.update({n: detector.detect(images[n])}))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, points in enumerate(expected):
        np.testing.assert_array_equal(found[number], points)


def test_a_model_of_one_s_own_is_named_by_its_path(tmp_path):
    image = photograph("camera")[:200, :200]
    (tmp_path / "keypoints.tflite").write_bytes(SHIPPED.read_bytes())
    expected = detect(image, "learned", 50)
    for name in (str(tmp_path), tmp_path / "keypoints.tflite", LearnedDetector(tmp_path)):
        found = detect(image, name, 50)
        np.testing.assert_array_equal(found.frames, expected.frames)
        extractor = DescriptorExtractor("rootsift", name)
        assert extractor.settings()["detector_sha256"]
        assert extractor.extract(image).descriptors.shape[1] == 128
    assert "detector_sha256" not in DescriptorExtractor("rootsift", "dog").settings()


def test_features_of_another_threshold_are_not_taken_for_those_of_the_default():
    named, as_object, other = (
        DescriptorExtractor("rootsift", detector).settings()["detector_settings"]
        for detector in ("learned", LearnedDetector(), LearnedDetector(threshold=0))
    )
    assert named == as_object != other


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "keypoints.tflite"
    path.write_bytes(SHIPPED.read_bytes())
    image = photograph("camera")[200:300, 200:300]
    assert len(detect(image, path).frames)
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="damaged"):
        detect(image, path)


def test_bad_models_are_named(tmp_path):
    from doap_tf import tflite_metadata

    no_tflite = tmp_path / "text.tflite"
    no_tflite.write_text("text")
    fixed = tmp_path / "fixed.tflite"
    metadata = tflite_metadata.read(SHIPPED.read_bytes())
    fixed.write_bytes(
        replaced_metadata(SHIPPED.read_bytes(), {**metadata, "image_size": [480, 640]})
    )
    patches = tmp_path / "patches.tflite"
    patches.write_bytes(replaced_metadata(SHIPPED.read_bytes(), {"head": "real"}))
    for path, message in (
        (no_tflite, "text.tflite is not a .tflite file of doap_tf"),
        (tmp_path / "missing.tflite", "missing.tflite.*No such file"),
        (tmp_path, "keypoints.tflite.*No such file"),
        (fixed, "takes images of .480, 640. only"),
        (patches, "patches.tflite holds no keypoint network"),
    ):
        with pytest.raises(InputError, match=message):
            DescriptorExtractor("rootsift", path)
        with pytest.raises(InputError, match=message):
            LearnedDetector(path)
    with pytest.raises(InputError, match=r"learnt.*learned.*tflite"):
        DescriptorExtractor("rootsift", "learnt")


def replaced_metadata(model, metadata):
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    from doap_tf import tflite_metadata

    tree = schema.ModelT.InitFromPackedBuf(model, 0)
    tree.metadata = []
    builder = flatbuffers.Builder(len(model))
    builder.Finish(tree.Pack(builder), b"TFL3")
    return tflite_metadata.attach(bytes(builder.Output()), metadata)


def test_a_keypoint_s_size_is_its_diameter():
    image = photograph("camera")
    extractor = DescriptorExtractor("pixels", "learned", max_keypoints=100)
    features = extractor.extract(image)
    keypoints = extractor.detect(image)
    np.testing.assert_allclose([k.size / 2 for k in keypoints], radii(features.frames), rtol=1e-6)
    _, rows = extractor.compute(image, keypoints)
    np.testing.assert_allclose(rows, features.descriptors, atol=0.1)
    upright = detect(image, "learned", 100, oriented=False)
    np.testing.assert_array_equal(orient(image, upright.frames), features.frames)


@pytest.mark.parametrize("descriptor", ["sift", "rootsift"])
def test_opencv_s_sift_describes_learned_keypoints(descriptor):
    features = DescriptorExtractor(descriptor, "learned", 200).extract(photograph("camera"))
    assert features.descriptors.shape == (200, 128)
    own = cv2.SIFT.create(enable_precise_upscale=True)
    from doap_tf.descriptors.opencv_sift import sift_keypoints

    rows = own.compute(
        photograph("camera"), sift_keypoints(features.frames, (512, 512), features.responses)
    )[1]
    if descriptor == "sift":
        np.testing.assert_array_equal(features.descriptors, rows)


def test_16_bits_and_alpha_are_read():
    grey = photograph("camera")[150:350, 100:400]
    extractor = DescriptorExtractor("rootsift", "learned", 100)
    expected = extractor.extract(grey).frames
    assert len(expected) == 100
    for image in (grey.astype(np.uint16) * 257, cv2.cvtColor(grey, cv2.COLOR_GRAY2BGRA)):
        np.testing.assert_allclose(extractor.extract(image).frames, expected, atol=1e-6)


def test_detection_imports_no_tensorflow():
    code = (
        "import sys, numpy as np\n"
        "from doap_tf.matching import DescriptorExtractor\n"
        "image = np.random.default_rng(0).integers(0, 255, (90, 90), np.uint8)\n"
        "assert DescriptorExtractor('rootsift', 'learned').detect(image)\n"
        "assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
