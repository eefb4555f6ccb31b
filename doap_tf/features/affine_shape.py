"""Affine adaptation of frames: Baumberg's iteration on the second-moment matrix."""

import numpy as np

from doap_tf.features.cutting import Pyramid
from doap_tf.features.frames import radii, scale_frames, semi_axes
from doap_tf.features.gradients import frame_gradients

_ITERATIONS = 16
_ISOTROPIC = 0.95  # ratio of the moments' square roots at which an ellipse has converged
_ELONGATED = 6.0  # ratio of the axes at which the iteration gives up
_WINDOW_SIGMA = 3.0  # in radii of the frame
_CHUNK = 512


def adapt_shape(
    image: np.ndarray, frames: np.ndarray, limit: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Turns circles into the ellipses in whose coordinates the gradients have no main direction.

    Centres and areas do not change. The ellipses stand upright: their A is symmetric.

    Args:
        image: uint8 [H, W].
        frames: [N, 2, 3]; only centres and radii are used.
        limit: Stop once this many have converged.

    Returns:
        Frames [M, 2, 3] that converged, and their indices [M] among `frames`, ascending.
    """
    pyramid = Pyramid(image.astype(np.float32))
    adapted, kept = np.zeros((0, 2, 3)), np.zeros(0, np.intp)
    for start in range(0, len(frames), _CHUNK):
        if limit is not None and len(kept) >= limit:
            break
        ellipses, converged = _iterate(pyramid, frames[start : start + _CHUNK])
        adapted = np.concatenate([adapted, ellipses[converged]])
        kept = np.concatenate([kept, start + converged])
    return adapted[:limit], kept[:limit]


def _iterate(pyramid: Pyramid, frames: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns ellipses for all frames, and the indices of those that converged."""
    ellipses = np.zeros_like(frames)
    ellipses[:, :, 2] = frames[:, :, 2]
    ellipses[:, :, :2] = np.eye(2) * radii(frames)[:, None, None]
    converged = np.zeros(len(frames), dtype=bool)
    active = np.arange(len(frames))
    for _ in range(_ITERATIONS):
        values, vectors = np.linalg.eigh(_second_moments(pyramid, ellipses[active]))
        done = values[:, 0] >= _ISOTROPIC**2 * values[:, 1]
        converged[active[done & (values[:, 1] > 0)]] = True
        active, values, vectors = active[~done], values[~done], vectors[~done]
        # A structure with a single direction has no smaller moment to divide by.
        values = np.maximum(values, 1e-6 * values[:, 1:])
        whitening = (vectors / np.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)
        ellipses[active] = _upright(ellipses[active], whitening)
        axes = semi_axes(ellipses[active])
        active = active[axes[:, 0] < _ELONGATED * axes[:, 1]]
    return ellipses, np.flatnonzero(converged)


def _second_moments(pyramid: Pyramid, frames: np.ndarray) -> np.ndarray:
    along, across, window = frame_gradients(pyramid, frames, _WINDOW_SIGMA)
    moments = np.empty((len(frames), 2, 2))
    moments[:, 0, 0] = (along * along * window).sum(axis=(1, 2))
    moments[:, 1, 1] = (across * across * window).sum(axis=(1, 2))
    moments[:, 0, 1] = moments[:, 1, 0] = (along * across * window).sum(axis=(1, 2))
    return moments


def _upright(frames: np.ndarray, change: np.ndarray) -> np.ndarray:
    """`frames` after `change` [N, 2, 2], with the same areas, as symmetric A."""
    linear = frames[:, :, :2] @ change
    values, vectors = np.linalg.eigh(linear @ linear.transpose(0, 2, 1))
    changed = frames.copy()
    changed[:, :, :2] = (vectors * np.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)
    return scale_frames(changed, radii(frames) / radii(changed))
