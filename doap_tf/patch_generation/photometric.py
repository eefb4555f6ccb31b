"""Photometric augmentation: random exposure, contrast, blur, noise and JPEG compression."""

import cv2
import numpy as np


def augment_photometrically(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Simulates another photograph of the same view.

    Effects are applied in the order of a camera: blur with probability 0.4, exposure always, noise
    and JPEG compression with probability 0.5 each.

    Args:
        image: uint8 [H, W].
        rng: Source of random numbers.

    Returns:
        uint8 [H, W].
    """
    if rng.random() < 0.4:
        image = cv2.GaussianBlur(image, (0, 0), _log_uniform(rng, 0.5, 2.5))
    image = cv2.LUT(image, _exposure(float(image.mean()), rng))
    if rng.random() < 0.5:
        noise = rng.standard_normal(image.shape, np.float32) * _log_uniform(rng, 1, 12)
        image = np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)
    if rng.random() < 0.5:
        quality = int(rng.integers(15, 91))
        _, encoded = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])
        image = np.asarray(cv2.imdecode(encoded, cv2.IMREAD_GRAYSCALE))
    return image


def _exposure(mean: float, rng: np.random.Generator) -> np.ndarray:
    """Returns a lookup table uint8 [256]: gamma, then contrast about the mean, then brightness.

    The new mean ranges from dusk to bright haze; values saturate at both ends.
    """
    gamma = _log_uniform(rng, 0.55, 1.8)
    contrast = _log_uniform(rng, 0.4, 1.6)
    table = 255 * (np.arange(256) / 255) ** gamma
    pivot = 255 * (mean / 255) ** gamma
    new_mean = np.clip(pivot + rng.normal(0, 35), 25, 205)
    return np.clip(np.rint((table - pivot) * contrast + new_mean), 0, 255).astype(np.uint8)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
