"""What a graph finds with a dense network is what `DenseExtractor` finds."""

import cv2
import numpy as np
import pytest
import tensorflow as tf

from doap_tf.export.graph_extractor import graph_extractor
from doap_tf.features.graph.dense_extractor import _enlarged, _shrunk
from doap_tf.matching import DenseExtractor
from tests.dense import check_features, small_model, small_network
from tests.features.pictures import photograph


@pytest.fixture(scope="module")
def find():
    graph = tf.function(
        graph_extractor(small_network()).extract,
        input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32)],
        autograph=False,
    )

    def find(image, most):
        keypoints, descriptors = graph(image.astype(np.float32), most)
        return [part.numpy() for part in (*keypoints, descriptors)]

    return find


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model())
    return DenseExtractor(path, max_keypoints=400)


@pytest.mark.parametrize(("height", "width", "levels"), [(257, 331, 3), (63, 200, 1)])
def test_finds_what_the_extractor_finds(find, local, height, width, levels):
    image = photograph()[:height, 100 : 100 + width]
    expected = local.extract(image)
    x, y, radius, scores, descriptors = find(image, 400)
    assert len(np.unique(radius)) == levels
    check_features(np.stack([x, y, 2 * radius], axis=1), scores, descriptors, expected)


def test_keeps_the_strongest(find):
    image = photograph()[:140, :180]
    everything = find(image, 10_000)
    for all_of_them, some in zip(everything, find(image, 20), strict=True):
        np.testing.assert_allclose(some, all_of_them[:20], atol=1e-5)
    assert [len(part) for part in find(image, 0)] == [0] * 5


@pytest.mark.parametrize("shape", [(1, 1), (8, 200), (64, 130)])
def test_nothing_is_found_where_nothing_is(find, shape):
    """Neither in a flat image nor where an image is too small."""
    assert find(np.full(shape, 7), 100)[4].shape == (0, 16)


@pytest.mark.parametrize("shape", [(128, 300), (129, 301), (131, 200), (390, 647)])
def test_levels_are_shrunk_as_by_opencv(shape):
    image = photograph()[: shape[0], : shape[1]]
    image = cv2.resize(image, shape[::-1])
    size = [round(side / 2) for side in shape]
    expected = cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA)
    found = _shrunk(tf.constant(image, tf.float32), tf.constant(size)).numpy()
    differences = np.abs(found - expected)
    if shape[0] % 2 == shape[1] % 2 == 0:
        assert not differences.any()
    assert differences.max() <= 1 and np.mean(differences > 0) < 0.005
    np.testing.assert_array_equal(_shrunk(tf.constant(found), tf.constant(size)), found)


@pytest.mark.parametrize("shape", [(257, 331), (512, 512), (60, 90)])
def test_images_are_enlarged_as_by_opencv(shape):
    image = photograph()[: shape[0], : shape[1]].astype(np.float32)
    for factor in (1.3, 2):
        size = [round(side * factor) for side in shape]
        expected = np.rint(cv2.resize(image, size[::-1], interpolation=cv2.INTER_LINEAR))
        differences = np.abs(_enlarged(tf.constant(image), tf.constant(size)).numpy() - expected)
        assert differences.max() <= 1 and np.mean(differences > 0) < 1e-3
