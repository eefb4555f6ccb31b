"""The effects of NumPy and of TensorFlow against each other, and what each must hold."""

import dataclasses

import cv2
import numpy as np
import pytest
import tensorflow as tf

from doap_tf.appearance import PRESETS, Appearance, Effect, array_effects, tensor_effects
from doap_tf.appearance.parameters import bicubic_weights
from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.errors import InputError
from tests.features.pictures import photograph

VIEWS = np.stack([photograph(name)[100:164, 80:176] for name in ("camera", "chelsea", "grass")])
SHAPE = VIEWS.shape
SEED = tf.constant([3, 5])


def drawn_together(settings, seed=0):
    """The parameters of one effect, drawn by NumPy for each view, and stacked for TensorFlow."""
    rng = np.random.default_rng(seed)
    single = [array_effects.draw_effects(settings, SHAPE[1:], rng) for _ in VIEWS]
    (name,) = single[0]
    stacked = [
        np.float32(values) for values in zip(*(drawn[name] for drawn in single), strict=True)
    ]
    return name, [drawn[name] for drawn in single], [tf.constant(values) for values in stacked]


# NumPy's effects of a camera round to whole grey levels; OpenCV blurs bytes in fixed point.
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("random_convolution", 1e-2),
        ("tone_curve", 1e-2),
        ("negative", 1e-3),
        ("light_field", 1e-2),
        ("shadow", 1e-3),
        ("blur", 1.0),
        ("exposure", 0.501),
        ("noise", 0.501),
    ],
)
@pytest.mark.parametrize("strength", [0.4, 1.0])
def test_both_implementations_agree(name, tolerance, strength):
    settings = Appearance.only(**{name: Effect(1.0, strength)})
    drawn, single, batch = drawn_together(settings)
    assert drawn == name
    effect = array_effects.EFFECTS[name]
    camera = name in ("blur", "exposure", "noise")
    views = VIEWS if camera else VIEWS.astype(np.float32)
    expected = np.stack([effect(view, *one) for view, one in zip(views, single, strict=True)])
    actual = tensor_effects.EFFECTS[name](tf.constant(VIEWS, tf.float32), *batch)
    if camera:
        actual = tf.clip_by_value(actual, 0, 255)
    assert expected.dtype == views.dtype
    assert np.abs(expected - VIEWS.astype(np.float32)).mean() > 0.3
    np.testing.assert_allclose(actual, expected, atol=tolerance)


def test_the_same_parameters_of_all_effects_give_the_same_view():
    settings = dataclasses.replace(PRESETS["strong"], share=1.0, jpeg=Effect(0.0))
    for number, view in enumerate(VIEWS):
        drawn = array_effects.draw_effects(settings, SHAPE[1:], np.random.default_rng(number))
        batch = {
            name: (
                tf.constant([True]),
                [tf.constant(np.float32(value)[np.newaxis]) for value in values],
            )
            for name, values in drawn.items()
        }
        actual = tensor_effects.apply_effects(tf.constant(view[np.newaxis], tf.float32), batch)
        expected = array_effects.apply_effects(view, drawn)
        assert np.abs(actual[0] - expected).mean() < 1.5, drawn.keys()


def test_xla_gives_the_same_views_and_rows_differ():
    views = tf.constant(np.stack([VIEWS[0]] * 4), tf.float32)
    eager = tensor_effects.change_appearance(views, PRESETS["strong"], SEED)
    compiled = tf.function(tensor_effects.change_appearance, jit_compile=True)
    np.testing.assert_allclose(compiled(views, PRESETS["strong"], SEED), eager, atol=0.05)
    assert eager.shape == views.shape
    assert tf.reduce_min(eager) >= 0 and tf.reduce_max(eager) <= 255
    rows = np.asarray(eager)
    for first in range(4):
        for second in range(first):
            assert np.abs(rows[first] - rows[second]).mean() > 1
    again = tensor_effects.change_appearance(views[..., tf.newaxis], PRESETS["strong"], SEED)
    np.testing.assert_array_equal(again, eager[..., tf.newaxis])
    other = compiled(views, PRESETS["strong"], SEED + 1)
    assert np.abs(other - eager).mean() > 1


@pytest.mark.parametrize(
    "settings", [Appearance.only(), Appearance.only(blur=Effect(1.0, 0.0), shadow=Effect(0.0))]
)
def test_no_probability_and_no_strength_change_nothing(settings):
    rng = np.random.default_rng(0)
    np.testing.assert_array_equal(
        array_effects.change_appearance(VIEWS[0], settings, rng), VIEWS[0]
    )
    views = tf.constant(VIEWS, tf.float32)
    np.testing.assert_array_equal(tensor_effects.change_appearance(views, settings, SEED), views)


def test_effects_of_the_scene_change_their_share_of_the_views():
    settings = dataclasses.replace(
        Appearance.only(negative=Effect(0.5), noise=Effect(0.25)), share=0.4
    )
    drawn = tensor_effects.draw_effects(settings, (4000, 1, 1), SEED)
    shares = {name: float(np.mean(chosen)) for name, (chosen, _) in drawn.items()}
    assert shares == pytest.approx({"negative": 0.2, "noise": 0.25}, abs=0.03)
    rng = np.random.default_rng(0)
    names = [set(array_effects.draw_effects(settings, (1, 1), rng)) for _ in range(4000)]
    for name, share in shares.items():
        assert np.mean([name in drawn for drawn in names]) == pytest.approx(share, abs=0.04)


def test_a_tone_curve_rises_where_none_of_its_steps_falls():
    ramp = tf.tile(tf.linspace(0.0, 255.0, 200)[tf.newaxis, tf.newaxis], [64, 1, 1])
    for falling, rises in ((0.0, 1.0), (1.0, 0.0)):
        settings = dataclasses.replace(Appearance.only(tone_curve=Effect()), falling=falling)
        ((_, parameters),) = tensor_effects.draw_effects(settings, (64, 1, 200), SEED).values()
        *curve, share = parameters
        curves = tensor_effects.tone_curve(ramp, *curve, tf.ones_like(share))
        assert np.mean(np.diff(curves, axis=-1) >= -1e-3) == rises or falling
        if falling:
            assert np.all(curves[..., -1] < curves[..., 0])


@pytest.mark.parametrize("strength", [0.5, 1.0])
def test_strengths_bound_the_parameters(strength):
    def parameters(name):
        settings = Appearance.only(**{name: Effect(1.0, strength)})
        ((_, drawn),) = tensor_effects.draw_effects(settings, (500, 2, 2), SEED).values()
        return [np.asarray(values) for values in drawn]

    assert 0.9 * strength < parameters("random_convolution")[2].max() <= strength
    assert 0.9 * strength < parameters("tone_curve")[3].max() <= strength
    assert parameters("light_field")[0].std() == pytest.approx(0.5 * strength, rel=0.05)
    depth = parameters("shadow")[3]
    assert 0.2 * strength <= depth.min() and depth.max() <= 0.85 * strength
    sigma = parameters("blur")[0]
    assert 0.5 * strength <= sigma.min() and sigma.max() <= 2.5 * strength
    gamma, contrast, _ = parameters("exposure")
    assert 0.55**strength <= gamma.min() and gamma.max() <= 1.8**strength
    assert 0.4**strength <= contrast.min() and contrast.max() <= 1.6**strength
    assert parameters("noise")[1].max() <= 12 * strength


def test_light_is_positive_and_a_shadow_darkens():
    ones = tf.ones([64, 40, 50])
    (_, light), (_, shade) = (
        tensor_effects.draw_effects(Appearance.only(**{name: Effect()}), ones.shape, SEED)[name]
        for name in ("light_field", "shadow")
    )
    lit = tensor_effects.light_field(ones, *light)
    assert np.all(lit > 0) and np.max(lit) > 1.5 and np.min(lit) < 0.6
    shaded = tensor_effects.shadow(ones, *shade)
    assert np.all(shaded <= 1) and np.all(shaded >= 0.149)


@pytest.mark.parametrize("size", [7, 64])
def test_the_light_field_is_enlarged_as_by_opencv(size):
    values = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    expected = cv2.resize(values, (size, 33), interpolation=cv2.INTER_CUBIC)
    actual = bicubic_weights(33) @ values @ bicubic_weights(size).T
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_random_tensors_have_their_distributions():
    source = RandomTensors(SEED, 20_000)
    uniform, normal = source.uniform(-1, 3), np.asarray(source.normal())
    assert np.mean(uniform) == pytest.approx(1, abs=0.03) and np.min(uniform) >= -1
    assert normal.mean() == pytest.approx(0, abs=0.03)
    assert normal.std() == pytest.approx(1, abs=0.03)
    assert np.mean(np.abs(normal) > 2) == pytest.approx(0.0455, abs=0.01)
    assert np.mean(source.signs(0.2) < 0) == pytest.approx(0.2, abs=0.02)
    assert abs(np.corrcoef(source.uniform(0, 1), source.uniform(0, 1))[0, 1]) < 0.03


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_bad_settings_are_refused(value):
    for make in (Effect, lambda value: Effect(1.0, value)):
        with pytest.raises(InputError, match=r"in \[0, 1\]"):
            make(value)
    for name in ("share", "falling"):
        with pytest.raises(InputError, match=name):
            Appearance(**{name: value})
