import numpy as np
import pytest
import scipy.ndimage
import skimage.data
import tensorflow as tf
from scipy.spatial import KDTree

from doap_tf.features import LearnedDetector
from doap_tf.features.graph.detection import GraphDetector
from doap_tf.features.graph.score_maxima import _highest, mirrored
from doap_tf.zoo import load_keras


@pytest.fixture(scope="module")
def find():
    network = load_keras("learned")
    detector = GraphDetector(network, network.stride, network.receptive_field, network.radius)
    graph = tf.function(
        detector.detect,
        input_signature=[tf.TensorSpec([None, None], tf.float32), tf.TensorSpec([], tf.int32)],
        autograph=False,
    )
    return lambda image, most: [column.numpy() for column in graph(image.astype(np.float32), most)]


@pytest.mark.parametrize(
    ("name", "height", "width"), [("camera", 240, 301), ("coins", 97, 130), ("brick", 28, 90)]
)
def test_finds_what_the_detector_finds(find, name, height, width):
    image = getattr(skimage.data, name)()[100 : 100 + height, 150 : 150 + width]
    expected = LearnedDetector().detect(image)
    assert len(expected.x)
    x, y, radius, score = find(image, 10_000)
    assert abs(len(x) - len(expected.x)) <= 0.02 * len(x)
    assert len(np.unique(radius)) == len(np.unique(expected.sigma))

    def points(x, y, radius, score):
        return np.stack([x, y, 1000 * np.log2(radius), score], axis=1)

    distances = KDTree(points(x, y, radius, score)).query(points(*expected))[0]
    assert np.mean(distances < 0.5) >= 0.95
    # Smaller levels differ where OpenCV's bilinear interpolation in integers rounds otherwise.
    assert distances[expected.sigma == expected.sigma.min()].max() < 0.001


def test_keeps_the_strongest(find):
    image = skimage.data.camera()[200:320, 180:340]
    everything = find(image, 10_000)
    assert len(everything[0]) > 20
    assert np.all(np.diff(everything[3]) <= 0)
    for all_of_them, some in zip(everything, find(image, 20), strict=True):
        np.testing.assert_array_equal(some, all_of_them[:20])
    assert [len(column) for column in find(image, 0)] == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", [(1, 1), (8, 200), (64, 80)])
def test_nothing_is_found_where_nothing_is(find, shape):
    """Neither in a flat image nor where an image is too small."""
    assert find(np.full(shape, 7), 100)[0].size == 0


def test_the_border_is_mirrored_as_often_as_needed():
    for shape in ((1, 2), (3, 7)):
        image = np.arange(np.prod(shape)).reshape(shape)
        expected = np.pad(image, [(10, 13), (10, 10)], "reflect")
        np.testing.assert_array_equal(mirrored(tf.constant(image), 10, [3, 0]), expected)


@pytest.mark.parametrize("side", [5, 11])
def test_highest_value_of_every_square(side):
    image = np.random.default_rng(0).normal(size=[17, 23]).astype(np.float32)
    expected = scipy.ndimage.maximum_filter(image, side, mode="constant", cval=-np.inf)
    np.testing.assert_array_equal(_highest(tf.constant(image), side), expected)
