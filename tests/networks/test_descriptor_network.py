import numpy as np
import pytest
import tensorflow as tf

from doap_tf.networks import PADDINGS, DescriptorNetwork, L2Net, pack_bits, standardize
from doap_tf.patch_generation.colmap_groups import PointSettings
from doap_tf.patch_generation.groups import GroupSettings
from doap_tf.training.config import TrainingConfig

keras = tf.keras
VARIANTS = [
    {"width": 0.25, "output_dim": 16},
    {"width": 0.25, "output_dim": 24, "head": "binary"},
    {"width": 0.25, "output_dim": 16, "spatial_transformer": True},
    {"width": 0.25, "output_dim": 24, "head": "binary", "spatial_transformer": True},
    {"trunk": "tiny", "output_dim": 16},
    {"trunk": "tiny", "output_dim": 24, "head": "binary"},
]


def patches_for(network, count=6, seed=0):
    """Smooth patches: on white noise half a pixel of the transformer changes everything."""
    noise = np.random.default_rng(seed).integers(0, 256, [count, 7, 7, 1])
    return tf.cast(tf.image.resize(noise, [network.input_size] * 2), tf.uint8).numpy()


def moved(network):
    """Gives the weights some life, so that no test passes because a map is still the identity."""
    keras.utils.set_random_seed(0)
    network(patches_for(network), training=True)
    generator = np.random.default_rng(1)
    for variable in network.trainable_variables:
        variable.assign_add(generator.normal(scale=0.002, size=variable.shape))
    return network


def test_the_papers_network_has_the_papers_weights():
    network = DescriptorNetwork()
    network.build((None, 32, 32, 1))
    assert sum(np.prod(weight.shape) for weight in network.trainable_variables) == 1_334_560


def test_networks_training_and_cutting_have_one_default_magnification():
    made_with_defaults = (DescriptorNetwork(), TrainingConfig(), GroupSettings(), PointSettings())
    assert {each.magnification for each in made_with_defaults} == {14.0}


@pytest.mark.parametrize("options", VARIANTS)
def test_heads(options):
    network = moved(DescriptorNetwork(**options))
    patches = patches_for(network)
    trained, tested = network(patches, training=True), network(patches)
    assert trained.dtype == tested.dtype == tf.float32
    assert tested.shape == [6, options["output_dim"]]
    if network.head == "real":
        np.testing.assert_allclose(np.linalg.norm(tested, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(trained, axis=1), 1, atol=1e-5)
    else:
        assert set(np.unique(tested)) == {-1, 1}
        assert (np.abs(trained) < 1).any()
        packed = network.describe_packed(patches)
        np.testing.assert_array_equal(packed, np.packbits(tested.numpy() > 0, axis=1))


@pytest.mark.parametrize("options", VARIANTS)
def test_saved_and_loaded_is_the_same(options, tmp_path):
    network = moved(DescriptorNetwork(magnification=7.0, **options))
    network.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    patches = patches_for(network, 20)
    np.testing.assert_array_equal(loaded(patches), network(patches))
    assert loaded.get_config() == network.get_config()
    assert loaded.magnification == 7.0


@pytest.mark.parametrize("options", VARIANTS)
def test_mixed_precision_stays_close(options):
    network = moved(DescriptorNetwork(**options))
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        mixed = DescriptorNetwork(**options)
        mixed.build((None, mixed.input_size, mixed.input_size, 1))
    finally:
        keras.config.set_dtype_policy("float32")
    mixed.set_weights(network.get_weights())
    patches = patches_for(network, 64).astype(np.float32) / 7  # not representable in bfloat16
    wanted, got = network(patches), mixed(patches)
    assert got.dtype == tf.float32
    cosine = tf.reduce_sum(wanted * got, axis=1) / tf.reduce_sum(wanted * wanted, axis=1)
    assert np.mean(cosine) > (0.99 if network.head == "real" else 0.9)


def test_patches_are_standardised_in_float32_under_a_mixed_policy():
    network = DescriptorNetwork(width=0.25, output_dim=16, dtype="mixed_bfloat16")
    tiny = 1000 + patches_for(network).astype(np.float32) / 255  # constant in bfloat16
    descriptors = network(tiny).numpy()
    assert np.abs(descriptors[0] - descriptors[1]).max() > 0.01


@pytest.mark.parametrize("options", [VARIANTS[3], VARIANTS[5]])
def test_compiles_under_xla(options):
    # In float32 a unit that passes zero by rounding changes gradients by some per cent.
    network = moved(DescriptorNetwork(dropout=0.0, dtype="float64", **options))
    patches = patches_for(network, 24)

    def loss_gradient(patches):
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(network(patches, training=True) ** 3)
        return tape.gradient(total, network.trainable_variables)

    plain = loss_gradient(patches)
    compiled = tf.function(loss_gradient, jit_compile=True)(patches)
    for one, other in zip(compiled, plain, strict=True):
        assert np.linalg.norm(one - other) < 1e-3 + 0.02 * np.linalg.norm(other)


@pytest.mark.parametrize("options", [{**VARIANTS[3], "padding": padding} for padding in PADDINGS])
def test_converts_to_tflite_with_builtin_operators(options):
    network = moved(DescriptorNetwork(**options))
    converter = tf.lite.TFLiteConverter.from_keras_model(network)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    assert converter.convert()


@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("value", [0, 255, 0.1])
def test_constant_patches_give_finite_descriptors(options, value):
    network = moved(DescriptorNetwork(**options))
    size = network.input_size
    assert np.isfinite(network(np.full([2, size, size, 1], value, np.float32))).all()


def test_scale_and_offset_of_the_input_do_not_matter():
    network = moved(DescriptorNetwork(**VARIANTS[0]))
    patches = patches_for(network).astype(np.float32)
    np.testing.assert_allclose(network(patches / 255 + 3), network(patches), atol=1e-3)


def test_standardize():
    patches = np.random.default_rng(2).normal(5, 3, [4, 9, 9, 1])
    got = standardize(patches).numpy()
    np.testing.assert_allclose(got.mean(axis=(1, 2, 3)), 0, atol=1e-6)
    np.testing.assert_allclose(got.std(axis=(1, 2, 3)), 1, atol=1e-5)


def test_bits_are_packed_as_numpy_packs_them():
    signs = np.random.default_rng(3).choice([-1.0, 1.0], size=[10, 64])
    np.testing.assert_array_equal(pack_bits(tf.constant(signs)), np.packbits(signs > 0, axis=1))


def test_align_gives_patches_and_maps():
    network = moved(DescriptorNetwork(**VARIANTS[2]))
    aligned, transforms = network.align(patches_for(network))
    assert aligned.shape == [6, 32, 32, 1] and transforms.shape == [6, 2, 3]
    assert np.abs(transforms - [[1, 0, 0], [0, 1, 0]]).max() > 1e-3


def test_only_the_trainer_sees_dropout():
    network = moved(DescriptorNetwork(width=0.25, output_dim=16, dropout=0.5))
    patches = patches_for(network)
    assert np.abs(network(patches, training=True) - network(patches, training=True)).max() > 0
    np.testing.assert_array_equal(network(patches), network(patches))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "ternary"}, "head.*ternary"),
        ({"head": "binary", "output_dim": 100}, "output_dim.*100"),
        ({"output_dim": 0}, "output_dim.*0"),
        ({"trunk": "vgg"}, "trunk.*l2net.*fast.*vgg"),
        ({"width": 0}, "width.*0"),
        ({"dropout": 1.0}, "dropout.*1.0"),
        ({"padding": "mirror"}, "padding.*mirror"),
        ({"magnification": -1}, "magnification.*-1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DescriptorNetwork(**options)


@pytest.mark.parametrize("shape", [[3, 32, 32], [3, 31, 32, 1], [3, 32, 32, 3], [3, 42, 42, 1]])
def test_bad_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"\[B, 32, 32, 1\]"):
        DescriptorNetwork(width=0.25)(np.zeros(shape, np.float32))
    with pytest.raises(ValueError, match=r"\[B, 32, 32, 1\]"):
        L2Net(width=0.25)(np.zeros(shape, np.float32))


def test_requests_that_a_network_cannot_serve_are_refused():
    network = DescriptorNetwork(width=0.25)
    with pytest.raises(ValueError, match="head='binary'"):
        network.describe_packed(patches_for(network))
    with pytest.raises(ValueError, match="spatial_transformer=True"):
        network.align(patches_for(network))
