import cv2
import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf.descriptors import keras_backend
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork

REAL = {"width": 0.25, "output_dim": 16}
BINARY = {"width": 0.25, "output_dim": 24, "head": "binary", "spatial_transformer": True}


@pytest.fixture(scope="module", params=[REAL, BINARY], ids=["real", "binary"])
def descriptor(request):
    return doap_tf.Descriptor(DescriptorNetwork(magnification=6.0, **request.param))


def random_patches(*shape):
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def test_shapes_types_and_facts(descriptor):
    described = descriptor.describe(random_patches(5, 65, 65))
    if descriptor.binary:
        assert described.shape == (5, 3) and described.dtype == np.uint8
        assert descriptor.norm == cv2.NORM_HAMMING and descriptor.dimension == 24
    else:
        assert described.shape == (5, 16) and described.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(described, axis=1), 1, atol=1e-5)
        assert descriptor.norm == cv2.NORM_L2 and descriptor.dimension == 16
    assert descriptor.magnification == 6.0
    assert len(descriptor.weights_sha256) == 64


def test_no_patches_give_no_descriptors(descriptor):
    described = descriptor.describe(np.zeros([0, 32, 32], np.uint8))
    assert described.shape == (0, 3 if descriptor.binary else 16)


def test_batches_channels_and_types_do_not_matter(descriptor):
    patches = random_patches(9, 40, 40)
    wanted = descriptor.describe(patches)
    for same in (patches[..., np.newaxis], patches.astype(np.float32), patches.astype(np.float64)):
        np.testing.assert_allclose(descriptor.describe(same), wanted, atol=1e-5)
    np.testing.assert_allclose(descriptor.describe(patches, batch_size=4), wanted, atol=1e-5)


def test_patches_of_the_networks_size_go_in_untouched(descriptor):
    size = descriptor.input_size
    patches = random_patches(4, size, size, 1)
    wanted = descriptor.to_keras()(patches).numpy()
    if descriptor.binary:
        wanted = np.packbits(wanted > 0, axis=1)
    for same in (patches, patches.astype(np.float32), patches.astype(np.int16)):
        np.testing.assert_allclose(descriptor.describe(same, batch_size=3), wanted, atol=1e-5)


def test_few_batch_sizes_reach_the_network(descriptor, monkeypatch):
    """TensorFlow keeps kernels for every one that it has seen."""
    sizes = set()

    def graph(patches):
        sizes.add(len(patches))
        return tf.zeros([len(patches), 3 if descriptor.binary else 16])

    monkeypatch.setattr(descriptor._backend, "_graph_for", lambda kind, size: graph)
    side = descriptor.input_size
    for count in range(1, 1025):
        assert len(descriptor.describe(np.broadcast_to(np.uint8(7), [count, side, side]))) == count
    assert len(sizes) < 80 and max(sizes) == 1024


def test_batches_that_come_often_are_compiled(descriptor, monkeypatch):
    descriptor = doap_tf.Descriptor(descriptor.to_keras())
    side = descriptor.input_size
    patches = random_patches(8, side, side)
    wanted = descriptor.describe(patches)
    monkeypatch.setattr(keras_backend, "COMPILE_AFTER", 10)
    monkeypatch.setattr(descriptor._backend, "_compiles", True)
    traced = []
    graph_for = descriptor._backend._graph_for
    monkeypatch.setattr(
        descriptor._backend,
        "_graph_for",
        lambda kind, size: traced.append(size) or graph_for(kind, size),
    )
    described = [descriptor.describe(patches) for _ in range(3)]
    assert traced == [None, 8, 8]
    for each in described:
        np.testing.assert_allclose(each, wanted, atol=1e-5)


def test_larger_patches_are_resized_without_aliasing():
    """Stripes finer than the small grid must fade to grey, not come back as coarse stripes."""
    from doap_tf.preprocessing import resize_patches

    stripes = np.tile(255 * (np.arange(128) % 2), [1, 128, 1])[..., np.newaxis]
    resized = resize_patches(stripes, 32).numpy()
    assert resized.shape == (1, 32, 32, 1)
    np.testing.assert_allclose(resized[:, :, 2:-2], 127.5, atol=2)


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        (np.zeros([32]), r"\[32\]"),
        (np.zeros([2, 32, 32, 3]), r"\[2, 32, 32, 3\]"),
        (np.zeros([2, 32, 31]), "32 high and 31 wide"),
        (np.zeros([2, 15, 15]), "15 high and 15 wide"),
        (np.zeros([2, 32, 32], complex), "complex128"),
        (np.full([2, 32, 32], np.nan), "patch 0"),
    ],
)
def test_bad_patches_are_refused(descriptor, patches, message):
    with pytest.raises(InputError, match=message):
        descriptor.describe(patches)


def test_bad_batch_size_is_refused(descriptor):
    with pytest.raises(InputError, match="batch_size"):
        descriptor.describe(random_patches(1, 32, 32), batch_size=0)


def test_models_are_loaded_from_files_and_training_directories(descriptor, tmp_path):
    descriptor.to_keras().save(tmp_path / "model.keras")
    patches = random_patches(3, 65, 65)
    for path in (tmp_path, tmp_path / "model.keras"):
        loaded = doap_tf.from_pretrained(path)
        np.testing.assert_array_equal(loaded.describe(patches), descriptor.describe(patches))
        assert loaded.weights_sha256 == descriptor.weights_sha256


def test_what_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(InputError, match="no-such-network"):
        doap_tf.from_pretrained("no-such-network")
    with pytest.raises(InputError, match=r"model\.keras"):
        doap_tf.from_pretrained(tmp_path)
    (tmp_path / "broken.keras").write_bytes(b"not a model")
    with pytest.raises(InputError, match=r"broken\.keras"):
        doap_tf.from_pretrained(tmp_path / "broken.keras")
    other = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    other.build((None, 2))
    other.save(tmp_path / "other.keras")
    with pytest.raises(InputError, match="Sequential"):
        doap_tf.from_pretrained(tmp_path / "other.keras")


@tf.keras.utils.register_keras_serializable("tests")
class PowerNetwork(DescriptorNetwork):
    """Has an argument of its own, which its descriptors depend on."""

    def __init__(self, power=1.0, **kwargs):
        super().__init__(**kwargs)
        self.power = power

    def call(self, patches, training=False):
        rows = super().call(patches, training=training)
        return tf.math.l2_normalize(tf.sign(rows) * tf.abs(rows) ** self.power, axis=-1)

    def get_config(self):
        return {**super().get_config(), "power": self.power}


def test_a_registered_subclass_is_loaded_once_its_class_is_known(tmp_path, monkeypatch):
    network = PowerNetwork(power=0.5, magnification=6.0, **REAL)
    patches = random_patches(4, 32, 32)
    expected = doap_tf.Descriptor(network).describe(patches)
    network.save(tmp_path / "power.keras")
    loaded = doap_tf.from_pretrained(tmp_path / "power.keras")
    assert type(loaded.to_keras()) is PowerNetwork and loaded.magnification == 6.0
    np.testing.assert_array_equal(loaded.describe(patches), expected)
    monkeypatch.delitem(tf.keras.utils.get_custom_objects(), "tests>PowerNetwork")
    with pytest.raises(InputError, match=r"tests>PowerNetwork.*import"):
        doap_tf.from_pretrained(tmp_path / "power.keras")
