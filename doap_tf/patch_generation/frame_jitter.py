"""Random errors of frames: the affine ones of HPatches at three levels, or a detector's own."""

import numpy as np

from doap_tf.features.frames import angles, compose, radii, scale_frames, similarity_frames

#: Half the side of HPatches' patches over the radius of their frames. Jitter and overlaps refer to
#: such patches, whatever magnification patches are cut at.
HPATCHES_MAGNIFICATION = 5.0

#: Amplitudes for which the median overlap of a patch's ellipse before and after is 0.85, 0.72, 0.6.
LEVELS = {"easy": 1.0, "hard": 2.02, "tough": 3.13}

# Standard deviations at amplitude 1. Translations count in half sides of the patch.
_TRANSLATION = 0.0625
_ROTATION = np.radians(6.5)
_LOG_SCALE = 0.078
_LOG_ELONGATION = 0.125

# Standard deviations of the learned detector, by experiments/detection_errors.py.
_DETECTED_TRANSLATION = 0.34  # in radii
_DETECTED_ROTATION = np.radians(9.3)
_DETECTED_LOG_SCALE = 0.132


def random_errors(count: int, amplitude: float, rng: np.random.Generator) -> np.ndarray:
    """Draws affine maps near the identity, float64 [count, 2, 3].

    Each is a stretch along a random direction, a change of scale, a rotation and a translation, all
    normally distributed.
    """
    direction = rng.uniform(0, np.pi, count)
    elongation, scale, rotation = rng.normal(
        0, amplitude * np.array([[_LOG_ELONGATION], [_LOG_SCALE], [_ROTATION]]), (3, count)
    )
    stretch = np.exp(scale + np.stack([elongation, -elongation]) / 2)
    errors = np.empty((count, 2, 3))
    errors[:, :, :2] = _rotations(rotation + direction) @ (
        stretch.T[:, :, None] * _rotations(-direction)
    )
    errors[:, :, 2] = rng.normal(0, amplitude * _TRANSLATION, (count, 2))
    return errors


def jitter_frames(frames: np.ndarray, amplitude: float, rng: np.random.Generator) -> np.ndarray:
    """Moves frames [N, 2, 3] so that their HPatches' patches are off by `random_errors`."""
    patches = scale_frames(frames, HPATCHES_MAGNIFICATION)
    moved = compose(patches, random_errors(len(frames), amplitude, rng))
    return scale_frames(moved, 1 / HPATCHES_MAGNIFICATION)


def detection_jitter(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Replaces frames [N, 2, 3] by circles as the learned detector would find them.

    Place, scale and angle are off by normally distributed errors. The shape of an ellipse is lost.
    """
    radius = radii(frames)
    spread = np.stack([_DETECTED_TRANSLATION * radius] * 2, axis=1)
    x, y = (frames[:, :, 2] + rng.normal(0, spread)).T
    scale = np.exp(rng.normal(0, _DETECTED_LOG_SCALE, len(frames)))
    angle = angles(frames) + rng.normal(0, _DETECTED_ROTATION, len(frames))
    return similarity_frames(x, y, radius * scale, angle)


def _rotations(angles: np.ndarray) -> np.ndarray:
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)], -2)
