"""What is random about each effect: its parameters, drawn for NumPy and TensorFlow alike."""

from typing import Any, Protocol

import numpy as np

from doap_tf.appearance.settings import Appearance

#: Range in which exposure keeps the mean of a view, from dusk to bright haze.
MEANS = (25.0, 205.0)

_GAMMA = (0.55, 1.8)
_CONTRAST = (0.4, 1.6)
_BRIGHTNESS = 35.0
_BLUR = (0.5, 2.5)
_NOISE = (1.0, 12.0)
_LIGHT = 0.5
_SHADOW = (0.2, 0.85)

#: Pixels beyond which a blurred pixel has no influence: three times the largest σ.
BLUR_RADIUS = 8


class Source(Protocol):
    """A source of random numbers, of arrays `[*shape]`, or of tensors `[B, *shape]`."""

    def uniform(self, low: float, high: float, *shape: int) -> Any: ...

    def log_uniform(self, low: float, high: float, *shape: int) -> Any: ...

    def normal(self, *shape: int) -> Any:
        """Of mean 0 and standard deviation 1."""

    def signs(self, negative: float, *shape: int) -> Any:
        """−1 with the probability `negative`, else 1."""


def draw(name: str, source: Source, settings: Appearance, shape: tuple[int, int]) -> tuple:
    """Draws the parameters of an effect; what they mean is said where it is applied.

    Args:
        name: of the effect.
        source: of random numbers.
        settings: of the effects.
        shape: height and width of the views.
    """
    strength = getattr(settings, name).strength
    if name == "random_convolution":
        return (
            source.normal(4, 5, 5) * _falloff(5),
            source.normal(4, 3, 3),
            source.uniform(0, strength),
        )
    if name == "tone_curve":
        return (
            source.uniform(-1.5, 1.5, 4),
            source.log_uniform(1, np.e**2, 4),
            source.uniform(0, 1, 4) * source.signs(settings.falling, 4),
            source.uniform(0, strength),
        )
    if name == "light_field":
        return (source.normal(4, 4) * (_LIGHT * strength),)
    if name == "shadow":
        return (
            source.uniform(0, 2 * np.pi),
            source.uniform(-0.7, 0.7),
            source.log_uniform(np.e, np.e**4),
            source.uniform(*_SHADOW) * strength,
        )
    if name == "blur":
        return (source.log_uniform(*_BLUR) * strength,)
    if name == "exposure":
        gamma, contrast = (
            source.log_uniform(low**strength, high**strength) for low, high in (_GAMMA, _CONTRAST)
        )
        return gamma, contrast, source.normal() * (_BRIGHTNESS * strength)
    if name == "noise":
        return source.normal(*shape), source.log_uniform(*_NOISE) * strength
    return ()


def bicubic_weights(size: int) -> np.ndarray:
    """Returns the matrix that enlarges four values to `size`, float32 [size, 4].

    Bicubic as in OpenCV: centres of pixels at halves, borders repeated, a = −0.75.
    """
    a = -0.75
    centres = (np.arange(size) + 0.5) * 4 / size - 0.5
    taps = np.floor(centres)[:, None] + np.arange(-1, 3)
    d = np.abs(centres[:, None] - taps)
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    weights = np.zeros((size, 4), np.float32)
    index = np.clip(taps, 0, 3).astype(int)
    np.add.at(weights, (np.arange(size)[:, None], index), np.where(d <= 1, near, far))
    return weights


def _falloff(size: int) -> np.ndarray:
    squares = (np.arange(size) - size // 2) ** 2
    return np.exp(-(squares[:, None] + squares) / 2).astype(np.float32)
