import numpy as np
import pytest
from scipy import ndimage

from doap_tf.errors import InputError
from doap_tf.features import dense_reader
from doap_tf.features.dense_reader import DenseReader, sample_map
from tests.dense import small_model, small_network
from tests.features.pictures import photograph


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "dense.tflite"
    path.write_bytes(small_model())
    return DenseReader(path)


def test_maps_and_rows_are_those_of_the_network(reader):
    network, image = small_network(), photograph()[:64, :96]
    maps = reader.read(image)
    expected = network(image[np.newaxis, ..., np.newaxis].astype(np.float32))
    np.testing.assert_allclose(maps.scores, expected.scores[0, ..., 0], atol=1e-4)
    points = np.random.default_rng(0).uniform(-3, 99, (50, 2)).astype(np.float32)
    rows = network.describe(expected.features, points[np.newaxis])[0]
    np.testing.assert_allclose(reader.describe(reader.sample(maps, points)), rows, atol=1e-5)


def test_tiles_give_the_maps_of_the_whole_image(reader, monkeypatch):
    image = photograph()[:333, :470]
    whole = reader.read(image)
    monkeypatch.setattr(dense_reader, "_LARGEST_TILE", 64)
    tiled = reader.read(image)
    assert whole.scores.shape == image.shape
    np.testing.assert_array_equal(tiled.scores, whole.scores)
    for level, expected in zip(tiled.features, whole.features, strict=True):
        np.testing.assert_array_equal(level, expected)


def test_samples_are_bilinear_and_end_at_the_border():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(5, 7, 3)).astype(np.float32)
    cells = rng.uniform(-2, 9, (100, 2))
    expected = [
        ndimage.map_coordinates(channel, cells[:, ::-1].T, order=1, mode="nearest")
        for channel in np.moveaxis(features, -1, 0).astype(np.float64)
    ]
    np.testing.assert_allclose(sample_map(features, cells), np.transpose(expected), atol=1e-5)
    assert sample_map(features[:1, :1], cells).shape == (100, 3)


def test_packed_bits(tmp_path):
    (tmp_path / "bits.tflite").write_bytes(small_model("binary"))
    reader = DenseReader(tmp_path / "bits.tflite")
    maps = reader.read(photograph()[:64, :64])
    rows = reader.describe(reader.sample(maps, np.full((3, 2), 20.0)))
    assert rows.dtype == np.uint8 and rows.shape == (3, 2)
    empty = reader.describe(reader.sample(maps, np.zeros((0, 2))))
    assert empty.dtype == np.uint8 and empty.shape == (0, 2)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the network .*none\.tflite"):
        DenseReader(tmp_path / "none.tflite")
    (tmp_path / "text.tflite").write_text("nothing")
    with pytest.raises(InputError, match=r"is not a \.tflite file of doap_tf"):
        DenseReader(tmp_path / "text.tflite")
