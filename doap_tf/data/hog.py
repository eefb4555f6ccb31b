"""Histograms of oriented gradients with 31 channels, as of Felzenszwalb et al. (UoCTTI)."""

import functools

import numpy as np

CELL = 8
CHANNELS = 31

_DIRECTIONS = 9  # over half a turn
_CLIP = 0.2
_BLOCK = 32  # patches at a time, so that intermediate arrays stay in the processor's cache


def hog(patches: np.ndarray) -> np.ndarray:
    """Computes HOG on cells of 8×8 pixels.

    Each pixel inside the border votes with the magnitude of its gradient for the nearest of 18
    signed directions, shared bilinearly among the four nearest cells. Each cell is normalised by
    the energy of the four blocks of 2×2 cells around it (border cells repeated), clipped at 0.2.

    Args:
        patches: uint8 [N, H, W]; H and W are multiples of 8.

    Returns:
        float32 [N, H / 8, W / 8, 31]: 18 signed and 9 unsigned directions, then 4 sums over all
        directions, one per block.
    """
    count, height, width = patches.shape
    features = np.empty([count, height // CELL, width // CELL, CHANNELS], np.float32)
    for start in range(0, count, _BLOCK):
        block = slice(start, start + _BLOCK)
        features[block] = _normalised(_histograms(patches[block]))
    return features


@functools.cache
def _gradient_tables() -> tuple[np.ndarray, np.ndarray]:
    """Returns direction and magnitude of every gradient of bytes, by 511 dy + dx + 130560."""
    difference = np.arange(-255.0, 256.0)
    angles = np.arange(_DIRECTIONS) * np.pi / _DIRECTIONS
    along = difference[:, None, None] * np.sin(angles) + difference[None, :, None] * np.cos(angles)
    # A vertical gradient lies halfway between two directions: rounding lets the first one win.
    nearest = np.abs(along).round(6).argmax(axis=2)
    backward = np.take_along_axis(along, nearest[..., None], axis=2)[..., 0] < 0
    directions = (nearest + _DIRECTIONS * backward).astype(np.uint8)
    magnitudes = np.hypot(difference[:, None], difference).astype(np.float32)
    return directions.ravel(), magnitudes.ravel()


def _histograms(patches: np.ndarray) -> np.ndarray:
    """Returns the votes for the signed directions in each cell, [N, H / 8, W / 8, 18]."""
    directions, magnitudes = _gradient_tables()
    values = patches.astype(np.int32)
    dy = values[:, 2:, 1:-1] - values[:, :-2, 1:-1]
    dx = values[:, 1:-1, 2:] - values[:, 1:-1, :-2]
    gradient = 511 * dy + dx + len(directions) // 2
    direction, magnitude = directions[gradient], magnitudes[gradient]
    rows, columns = (_share_of_cells(length) for length in patches.shape[1:])
    return np.stack(
        [
            rows.T @ np.where(direction == d, magnitude, np.float32(0)) @ columns
            for d in range(2 * _DIRECTIONS)
        ],
        axis=3,
    )


def _share_of_cells(length: int) -> np.ndarray:
    """Returns the share of its vote that each inner pixel gives each cell, [length − 2, cells]."""
    pixels = (np.arange(1, length - 1) + 0.5) / CELL
    centres = np.arange(length // CELL) + 0.5
    return np.maximum(0, 1 - np.abs(pixels[:, None] - centres)).astype(np.float32)


def _normalised(histograms: np.ndarray) -> np.ndarray:
    """Returns the 31 channels of each cell from its 18 votes."""
    unsigned = histograms[..., :_DIRECTIONS] + histograms[..., _DIRECTIONS:]
    energy = np.pad((unsigned**2).sum(axis=3), [(0, 0), (1, 1), (1, 1)], mode="edge")
    pairs = energy[:, 1:] + energy[:, :-1]
    norm = np.sqrt(pairs[:, :, 1:] + pairs[:, :, :-1] + 1e-10)
    channels = np.zeros([*histograms.shape[:3], CHANNELS])
    for i, block in enumerate(
        (norm[:, :-1, :-1], norm[:, :-1, 1:], norm[:, 1:, :-1], norm[:, 1:, 1:])
    ):
        signed_part = np.minimum(histograms / block[..., None], _CLIP)
        channels[..., :18] += 0.5 * signed_part
        channels[..., 18:27] += 0.5 * np.minimum(unsigned / block[..., None], _CLIP)
        channels[..., 27 + i] = signed_part.sum(axis=3) / np.sqrt(18)
    return channels
