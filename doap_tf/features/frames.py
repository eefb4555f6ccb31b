"""Affine frames: 2×3 maps [A|t] from the unit circle to image pixels.

Pixel centres lie at integers, x points right and y down, so a positive angle turns x towards y
(clockwise on the screen), as in OpenCV. N frames are a float64 array [N, 2, 3].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from doap_tf.errors import InputError

if TYPE_CHECKING:
    import cv2

#: Half the side of a patch over the radius of its frame, for detected keypoints
#: (docs/experiments/magnification.md).
DEFAULT_MAGNIFICATION = 14.0


def as_frames(frames: npt.ArrayLike) -> np.ndarray:
    """Returns frames as float64 [N, 2, 3]; raises an InputError if they are not finite numbers."""
    array = np.asarray(frames, dtype=np.float64)
    if array.size == 0:
        return array.reshape(0, 2, 3)
    if array.ndim != 3 or array.shape[1:] != (2, 3):
        raise InputError(f"frames have shape {array.shape}; expected [N, 2, 3], rows of [A|t]")
    if not np.isfinite(array).all():
        bad = int(np.flatnonzero(~np.isfinite(array).all(axis=(1, 2)))[0])
        raise InputError(f"frame {bad} is not finite: {array[bad].tolist()}; drop such frames")
    return array


def similarity_frames(
    x: npt.ArrayLike, y: npt.ArrayLike, radius: npt.ArrayLike, angle: npt.ArrayLike = 0.0
) -> np.ndarray:
    """Frames [N, 2, 3] of circles around (x, y); `angle` in radians from x towards y."""
    x, y, radius, angle = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (x, y, radius, angle))
    )
    cosine, sine = radius * np.cos(angle), radius * np.sin(angle)
    rows = [np.stack([cosine, -sine, x], axis=-1), np.stack([sine, cosine, y], axis=-1)]
    return np.stack(rows, axis=-2)


def frames_from_keypoints(
    keypoints: Sequence[cv2.KeyPoint], radius_per_size: float = 0.5
) -> np.ndarray:
    """Frames [N, 2, 3] of `cv2.KeyPoint`s, in order; a keypoint without an angle stands upright.

    Args:
        keypoints: Objects with `pt`, `size` and `angle` (degrees, −1 for none).
        radius_per_size: Frame radius over `KeyPoint.size`. One half is right where size is the
            diameter of the detected scale (SIFT); `detectors.RADIUS_PER_SIZE` has the others.
    """
    if not len(keypoints):
        return np.zeros((0, 2, 3))
    x, y, size, angle = np.array([(*k.pt, k.size, k.angle) for k in keypoints]).T
    angle = np.where(angle < 0, 0.0, np.radians(angle))
    return similarity_frames(x, y, size * radius_per_size, angle)


def keypoints_from_frames(
    frames: np.ndarray, responses: npt.ArrayLike | None = None
) -> list[cv2.KeyPoint]:
    """`cv2.KeyPoint`s of frames [N, 2, 3]; an ellipse becomes the circle of the same area."""
    import cv2

    if responses is None:
        responses = np.zeros(len(frames))
    columns = (
        frames[:, 0, 2],
        frames[:, 1, 2],
        2 * radii(frames),
        np.degrees(angles(frames)) % 360,
        np.asarray(responses),
    )
    return [cv2.KeyPoint(*values) for values in np.stack(columns, axis=1).tolist()]


def radii(frames: np.ndarray) -> np.ndarray:
    """Radius [N] of the circle that has the ellipse's area: √|det A|."""
    return np.sqrt(np.abs(np.linalg.det(frames[:, :, :2])))


def semi_axes(frames: np.ndarray) -> np.ndarray:
    """The ellipses' semi-axes [N, 2], the longer one first: the singular values of A."""
    (a, b), (c, d) = frames[:, :, :2].transpose(1, 2, 0)
    # Rotation-like and mirror-like parts of A: their lengths are half the sum and half the
    # difference of the singular values.
    turning, mirroring = np.hypot(a + d, c - b) / 2, np.hypot(a - d, c + b) / 2
    return np.stack([turning + mirroring, np.abs(turning - mirroring)], axis=1)


def angles(frames: np.ndarray) -> np.ndarray:
    """Angle [N] in radians of the rotation nearest to A (its polar factor)."""
    linear = frames[:, :, :2]
    return np.arctan2(linear[:, 1, 0] - linear[:, 0, 1], linear[:, 0, 0] + linear[:, 1, 1])


def scale_frames(frames: np.ndarray, factor: npt.ArrayLike) -> np.ndarray:
    """Frames [N, 2, 3] about the same centres with their radii times `factor` (one, or [N])."""
    scaled = np.array(frames, dtype=np.float64)
    scaled[:, :, :2] *= np.asarray(factor, dtype=np.float64)[..., None, None]
    return scaled


def compose(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """The affine maps [..., 2, 3] that apply `inner` first, then `outer`."""
    composed = outer[..., :2] @ inner
    composed[..., 2] += outer[..., 2]
    return composed


def transform_points(points: np.ndarray, homography: np.ndarray) -> np.ndarray:
    """Points [..., 2] mapped by a homography; NaN for those on or beyond its horizon."""
    mapped = points @ homography[:, :2].T + homography[:, 2]
    depth = mapped[..., 2:] * np.sign(np.linalg.det(homography))
    depth = np.where(depth > 1e-12 * np.abs(homography).max(), mapped[..., 2:], np.nan)
    return mapped[..., :2] / depth


def transform_frames(frames: np.ndarray, homography: np.ndarray) -> np.ndarray:
    """Frames [N, 2, 3] mapped by the local affine approximation of a homography at each centre.

    NaN for centres on or beyond the horizon. The homography is assumed to preserve orientation, as
    those between photographs do.
    """
    centres = frames[:, :, 2]
    mapped = transform_points(centres, homography)
    depth = centres @ homography[2, :2] + homography[2, 2]
    jacobian = homography[:2, :2] - mapped[:, :, None] * homography[2, :2]
    jacobian /= depth[:, None, None]
    return np.concatenate([jacobian @ frames[:, :, :2], mapped[:, :, None]], axis=2)


def inside(frames: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Which frames [N] have their square [−1, 1]² entirely inside an image of `shape`; not NaN."""
    height, width = shape[:2]
    centres = frames[:, :, 2]
    reach = np.abs(frames[:, :, :2]).sum(axis=2)
    last = np.array([width - 1, height - 1])
    return ((centres - reach >= 0) & (centres + reach <= last)).all(axis=1)
