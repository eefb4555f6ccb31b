"""A dense extractor whose network describes patches as well."""

import numpy as np
import pytest

import doap_tf
from doap_tf.features.cutting import cut_patches
from doap_tf.features.dense_reader import DenseReader
from doap_tf.features.frames import angles
from doap_tf.matching.dense_extractor import DenseExtractor
from doap_tf.networks import ContextNetwork
from doap_tf.networks.network_file import read_network, write_weights
from tests.dense import small_model, small_network
from tests.features.pictures import photograph


@pytest.fixture(scope="module", params=["real", "binary"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("context") / "dense.tflite"
    path.write_bytes(small_model(request.param, ContextNetwork))
    return request.param, path


def test_rows_are_those_of_the_network(model):
    head, path = model
    network, image = small_network(head, ContextNetwork), photograph()[:192, :256]
    features = DenseExtractor(path, 40, oriented=True).extract(image)
    assert len(features.frames) == 40 and np.ptp(angles(features.frames)) > 1
    reader = DenseReader(path)
    patches = cut_patches(image, features.frames, 32, network.magnification)
    points = np.random.default_rng(0).uniform(20, 150, (40, 2)).astype(np.float32)
    maps = network(image[np.newaxis, ..., np.newaxis].astype(np.float32))
    rows = network.join(
        network.describe(maps.features, points[np.newaxis])[0],
        network.describe_patches(patches[..., np.newaxis]),
    ).numpy()
    described = reader.describe(reader.sample(reader.read(image), points), patches)
    if head == "binary":
        assert (np.packbits(rows > 0, axis=1) == described).mean() > 0.99
    else:
        np.testing.assert_allclose(described, rows, atol=1e-4)
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def test_given_frames_are_described_as_they_are(model):
    image = photograph()[:192, :256]
    extractor = doap_tf.DescriptorExtractor(model[1], max_keypoints=40)
    features = extractor.extract(image)
    again = extractor.describe(image, features.frames[::-1]).descriptors[::-1]
    np.testing.assert_allclose(again, features.descriptors, atol=1e-5)
    assert not angles(features.frames).any()
    oriented = DenseExtractor(model[1], 40, oriented=True).extract(image)
    assert (oriented.descriptors != features.descriptors).any(axis=1).mean() > 0.2


def test_weights_come_back_from_their_file(tmp_path):
    network = small_network("real", ContextNetwork)
    write_weights(network, tmp_path / "context.npz")
    read = read_network(tmp_path / "context.npz", ContextNetwork)
    assert read.get_config() == network.get_config()
    np.testing.assert_allclose(read.get_weights()[0], network.get_weights()[0], atol=1e-3)
