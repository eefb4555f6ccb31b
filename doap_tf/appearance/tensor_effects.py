"""Changes of appearance as TensorFlow operations on a batch of views, compilable by XLA."""

import numpy as np
import tensorflow as tf

from doap_tf.appearance.parameters import BLUR_RADIUS, MEANS, bicubic_weights, draw
from doap_tf.appearance.random_tensors import RandomTensors
from doap_tf.appearance.settings import CAMERA_EFFECTS, SCENE_EFFECTS, Appearance


def change_appearance(views: tf.Tensor, settings: Appearance, seed: tf.Tensor) -> tf.Tensor:
    """Applies random effects to views, others to each.

    The same seed gives the same effects, with and without XLA. `jpeg` is left out.

    Args:
        views: float32 [B, H, W] or [B, H, W, 1] of static shape, from 0 to 255.
        settings: of the effects.
        seed: int32 [2].

    Returns:
        float32 of the same shape, from 0 to 255.
    """
    shape = views.shape
    return tf.reshape(
        apply_effects(tf.reshape(views, shape[:3]), draw_effects(settings, shape[:3], seed)), shape
    )


def draw_effects(
    settings: Appearance, shape: tuple[int, int, int], seed: tf.Tensor
) -> dict[str, tuple[tf.Tensor, tuple]]:
    """Draws whether each effect is applied, bool [B], and its parameters, tensors [B, …]."""
    batch, height, width = shape
    source = RandomTensors(seed, batch)
    scene = source.chance(settings.share)
    drawn = {}
    for name, probability in settings.probabilities((*SCENE_EFFECTS, *CAMERA_EFFECTS)).items():
        if name in EFFECTS:
            chosen = source.chance(probability)
            if name in SCENE_EFFECTS:
                chosen &= scene
            drawn[name] = chosen, draw(name, source, settings, (height, width))
    return drawn


def apply_effects(views: tf.Tensor, drawn: dict[str, tuple[tf.Tensor, tuple]]) -> tf.Tensor:
    """Applies drawn effects to views float32 [B, H, W]."""
    for name, (chosen, parameters) in drawn.items():
        views = tf.where(_per_view(chosen), EFFECTS[name](views, *parameters), views)
    return tf.clip_by_value(views, 0, 255)


def random_convolution(
    views: tf.Tensor, first: tf.Tensor, second: tf.Tensor, share: tf.Tensor
) -> tf.Tensor:
    """Mixes in two layers of convolution, with kernels [B, 4, 5, 5] and [B, 4, 3, 3]."""
    standard = standardise(views)
    hidden = tf.nn.leaky_relu(_correlate(standard, first), 0.2)
    other = sum(
        _correlate(hidden[..., channel], second[:, channel : channel + 1]) for channel in range(4)
    )
    return _mix(standard, other[..., 0], share)


def tone_curve(
    views: tf.Tensor,
    centres: tf.Tensor,
    slopes: tf.Tensor,
    weights: tf.Tensor,
    share: tf.Tensor,
) -> tf.Tensor:
    """Mixes in a curve of hyperbolic tangents, whose parameters are [B, 4]."""
    standard = standardise(views)
    steps = zip(*(tf.unstack(part, axis=1) for part in (centres, slopes, weights)), strict=True)
    curve = sum(
        _per_view(weight) * tf.tanh(_per_view(slope) * (standard - _per_view(centre)))
        for centre, slope, weight in steps
    )
    return _mix(standard, curve, share)


def negative(views: tf.Tensor) -> tf.Tensor:
    """Exchanges light and dark."""
    return _grey(-standardise(views))


def light_field(views: tf.Tensor, logarithms: tf.Tensor) -> tf.Tensor:
    """Multiplies by a smooth field, given by logarithms [B, 4, 4]."""
    rows, columns = (tf.constant(bicubic_weights(size)) for size in views.shape[1:])
    wide = tf.reduce_sum(logarithms[:, :, tf.newaxis] * columns, -1)
    field = tf.reduce_sum(rows[:, :, tf.newaxis] * wide[:, tf.newaxis], 2)
    return views * tf.exp(field)


def shadow(
    views: tf.Tensor, angle: tf.Tensor, offset: tf.Tensor, sharpness: tf.Tensor, depth: tf.Tensor
) -> tf.Tensor:
    """Darkens a half plane by a share, the depth; the centre is 0 and edges are at ±1."""
    y, x = (np.linspace(-1, 1, size, dtype=np.float32) for size in views.shape[1:])
    distance = tf.cos(_per_view(angle)) * x + tf.sin(_per_view(angle)) * y[:, np.newaxis]
    shade = tf.sigmoid((distance - _per_view(offset)) * _per_view(sharpness))
    return views * (1 - _per_view(depth) * shade)


def blur(views: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    """Blurs by Gaussians of standard deviations [B], of which three fit into `BLUR_RADIUS`."""
    taps = tf.range(-BLUR_RADIUS, BLUR_RADIUS + 1, dtype=tf.float32)
    weights = tf.nn.softmax(-0.5 * (taps / sigma[:, tf.newaxis]) ** 2)
    views = _correlate(views, weights[:, tf.newaxis, tf.newaxis])[..., 0]
    return _correlate(views, weights[:, tf.newaxis, :, tf.newaxis])[..., 0]


def exposure(
    views: tf.Tensor, gamma: tf.Tensor, contrast: tf.Tensor, brightness: tf.Tensor
) -> tf.Tensor:
    """Applies gamma, then contrast about the mean, then brightness."""
    gamma = _per_view(gamma)
    views = tf.clip_by_value(views, 0, 255)
    pivot = 255 * (_mean(views) / 255) ** gamma
    mean = tf.clip_by_value(pivot + _per_view(brightness), *MEANS)
    return tf.clip_by_value(
        (255 * (views / 255) ** gamma - pivot) * _per_view(contrast) + mean, 0, 255
    )


def noise(views: tf.Tensor, field: tf.Tensor, sigma: tf.Tensor) -> tf.Tensor:
    """Adds a field [B, H, W] of normally distributed numbers."""
    return views + field * _per_view(sigma)


EFFECTS = {
    effect.__name__: effect
    for effect in (
        random_convolution,
        tone_curve,
        negative,
        light_field,
        shadow,
        blur,
        exposure,
        noise,
    )
}


def standardise(views: tf.Tensor, floor: float = 2.0) -> tf.Tensor:
    """Returns views [B, H, W] less their means, over their standard deviations and the floor."""
    centred = views - _mean(views)
    return centred / (tf.sqrt(_mean(centred**2)) + floor)


def _mix(standard: tf.Tensor, other: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    share = _per_view(share)
    return _grey((1 - share) * standard + share * standardise(other, 1e-3))


def _grey(standard: tf.Tensor) -> tf.Tensor:
    return 128 + 50 * standard


def _mean(views: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(views, [1, 2], keepdims=True)


def _per_view(values: tf.Tensor) -> tf.Tensor:
    return values[:, tf.newaxis, tf.newaxis]


def _correlate(views: tf.Tensor, kernels: tf.Tensor) -> tf.Tensor:
    """Correlates views [B, H, W] with kernels [B, C, h, w] of their own, to [B, H, W, C].

    All views are channels of one image, which convolutions by channel take.
    """
    batch, height, width = views.shape
    count, rows, columns = kernels.shape[1:]
    padding = [[0, 0], [rows // 2, rows // 2], [columns // 2, columns // 2]]
    image = tf.transpose(tf.pad(views, padding, "REFLECT"), [1, 2, 0])
    maps = tf.nn.depthwise_conv2d(
        image[tf.newaxis], tf.transpose(kernels, [2, 3, 0, 1]), [1, 1, 1, 1], "VALID"
    )
    return tf.transpose(tf.reshape(maps, [height, width, batch, count]), [2, 0, 1, 3])
