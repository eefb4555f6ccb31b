"""Small images, enlarged for networks that read whole images."""

import cv2
import numpy as np

from doap_tf.features.dense_pyramid import ENLARGED, LARGEST_FACTOR


def enlarging_factor(pixels: int) -> float:
    """Returns the factor by which the sides of an image of so many pixels are enlarged."""
    return float(np.clip(np.sqrt(ENLARGED / max(pixels, 1)), 1, LARGEST_FACTOR))


def enlarge(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Enlarges an image, uint8 [H, W] or [H, W, 3], to a width and height, as a graph would."""
    larger = cv2.resize(image.astype(np.float32), size, interpolation=cv2.INTER_LINEAR)
    return np.rint(larger).astype(np.uint8)
