"""Changes of appearance of one view at a time, in NumPy and OpenCV."""

import cv2
import numpy as np

from doap_tf.appearance.parameters import MEANS, bicubic_weights, draw
from doap_tf.appearance.settings import CAMERA_EFFECTS, SCENE_EFFECTS, Appearance


class RandomArrays:
    """A source of random floats and float32 arrays.

    Args:
        rng: what draws them.
    """

    def __init__(self, rng: np.random.Generator):
        self._rng = rng

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray | float:
        """Returns numbers in [low, high), `[*shape]`."""
        if not shape:
            return self._rng.uniform(low, high)
        return self._rng.uniform(low, high, shape).astype(np.float32)

    def log_uniform(self, low: float, high: float, *shape: int) -> np.ndarray | float:
        """Returns numbers whose logarithms are uniform, `[*shape]`."""
        values = np.exp(self.uniform(np.log(low), np.log(high), *shape))
        return values if shape else float(values)

    def normal(self, *shape: int) -> np.ndarray | float:
        """Returns normally distributed numbers, `[*shape]`."""
        if not shape:
            return self._rng.standard_normal()
        return self._rng.standard_normal(shape, np.float32)

    def signs(self, negative: float, *shape: int) -> np.ndarray:
        """Returns −1 with the probability `negative`, else 1, `[*shape]`."""
        return np.where(self._rng.random(shape) < negative, -1, 1).astype(np.float32)

    def chance(self, probability: float) -> bool:
        """Returns True with a probability; a certain outcome takes no random number."""
        return probability > 0 and (probability >= 1 or self._rng.random() < probability)


def change_appearance(
    view: np.ndarray, settings: Appearance, rng: np.random.Generator
) -> np.ndarray:
    """Applies random effects to a view.

    Args:
        view: uint8 [H, W].
        settings: of the effects.
        rng: source of random numbers.

    Returns:
        uint8 [H, W].
    """
    return apply_effects(view, draw_effects(settings, view.shape, rng))


def draw_effects(
    settings: Appearance, shape: tuple[int, ...], rng: np.random.Generator
) -> dict[str, tuple]:
    """Draws the effects on a view of a shape, and their parameters."""
    source = RandomArrays(rng)
    drawn = {}
    for names, share in ((SCENE_EFFECTS, settings.share), (CAMERA_EFFECTS, 1.0)):
        if source.chance(share):
            for name, probability in settings.probabilities(names).items():
                if not source.chance(probability):
                    continue
                if name == "jpeg":
                    lowest = round(90 - 75 * settings.jpeg.strength)
                    drawn[name] = (int(rng.integers(lowest, 91)),)
                else:
                    drawn[name] = draw(name, source, settings, (shape[0], shape[1]))
    return drawn


def without_scene(drawn: dict[str, tuple]) -> dict[str, tuple]:
    """Returns those of the drawn effects that are a camera's."""
    return {name: drawn[name] for name in drawn if name not in SCENE_EFFECTS}


def apply_effects(view: np.ndarray, drawn: dict[str, tuple]) -> np.ndarray:
    """Applies drawn effects to a view uint8 [H, W]."""
    camera = without_scene(drawn)
    if len(camera) < len(drawn):
        values = view.astype(np.float32)
        for name in [name for name in drawn if name not in camera]:
            values = EFFECTS[name](values, *drawn[name])
        view = _to_bytes(values)
    for name, parameters in camera.items():
        view = EFFECTS[name](view, *parameters)
    return view


def random_convolution(
    view: np.ndarray, first: np.ndarray, second: np.ndarray, share: float
) -> np.ndarray:
    """Mixes in two layers of convolution, with kernels [4, 5, 5] and [4, 3, 3]."""
    standard = _standardise(view)
    other = np.zeros_like(standard)
    for kernel, next_kernel in zip(first, second, strict=True):
        hidden = cv2.filter2D(standard, -1, kernel)
        other += cv2.filter2D(np.where(hidden < 0, 0.2 * hidden, hidden), -1, next_kernel)
    return _mix(standard, other, share)


def tone_curve(
    view: np.ndarray, centres: np.ndarray, slopes: np.ndarray, weights: np.ndarray, share: float
) -> np.ndarray:
    """Mixes in a curve of hyperbolic tangents, whose parameters are [4]."""
    standard = _standardise(view)
    steps = zip(centres, slopes, weights, strict=True)
    curve = sum(weight * np.tanh(slope * (standard - centre)) for centre, slope, weight in steps)
    return _mix(standard, np.asarray(curve), share)


def negative(view: np.ndarray) -> np.ndarray:
    """Exchanges light and dark."""
    return _grey(-_standardise(view))


def light_field(view: np.ndarray, logarithms: np.ndarray) -> np.ndarray:
    """Multiplies by a smooth field, given by logarithms [4, 4]."""
    rows, columns = (bicubic_weights(size) for size in view.shape)
    return view * np.exp(rows @ logarithms @ columns.T)


def shadow(
    view: np.ndarray, angle: float, offset: float, sharpness: float, depth: float
) -> np.ndarray:
    """Darkens a half plane by a share, the depth; the centre is 0 and edges are at ±1."""
    y, x = (np.linspace(-1, 1, size, dtype=np.float32) for size in view.shape)
    distance = np.cos(angle) * x + np.sin(angle) * y[:, np.newaxis]
    shade = 1 / (1 + np.exp((offset - distance) * sharpness))
    return (view * (1 - depth * shade)).astype(np.float32)


def blur(view: np.ndarray, sigma: float) -> np.ndarray:
    """Blurs by a Gaussian."""
    return cv2.GaussianBlur(view, (0, 0), sigma)


def exposure(view: np.ndarray, gamma: float, contrast: float, brightness: float) -> np.ndarray:
    """Applies gamma, then contrast about the mean, then brightness."""
    table = 255 * (np.arange(256) / 255) ** gamma
    pivot = 255 * (float(view.mean()) / 255) ** gamma
    mean = np.clip(pivot + brightness, *MEANS)
    return cv2.LUT(view, _to_bytes((table - pivot) * contrast + mean))


def noise(view: np.ndarray, field: np.ndarray, sigma: float) -> np.ndarray:
    """Adds a field [H, W] of normally distributed numbers."""
    return _to_bytes(view + field * sigma)


def jpeg(view: np.ndarray, quality: int) -> np.ndarray:
    """Compresses and decompresses."""
    _, encoded = cv2.imencode(".jpg", view, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return np.asarray(cv2.imdecode(encoded, cv2.IMREAD_GRAYSCALE))


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
        jpeg,
    )
}


def _standardise(view: np.ndarray, floor: float = 2.0) -> np.ndarray:
    return (view - view.mean()) / (view.std() + floor)


def _mix(standard: np.ndarray, other: np.ndarray, share: float) -> np.ndarray:
    return _grey((1 - share) * standard + share * _standardise(other, 1e-3))


def _grey(standard: np.ndarray) -> np.ndarray:
    return 128 + 50 * standard


def _to_bytes(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
