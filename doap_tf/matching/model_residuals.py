"""How far matches are from a model of two views."""

import numpy as np

from doap_tf.features.frames import transform_points


def model_residuals(
    points1: np.ndarray, points2: np.ndarray, geometry: str, model: np.ndarray
) -> np.ndarray:
    """Returns how far matches are from a model, in pixels.

    Args:
        points1: [..., 2] in the first image.
        points2: [..., 2] in the second; both broadcast.
        geometry: `"homography"`: distances in the second image, infinite beyond the horizon;
            `"fundamental"`: Sampson distances.
        model: [3, 3] from the first image to the second.
    """
    if geometry == "homography":
        distances = np.linalg.norm(transform_points(points1, model) - points2, axis=-1)
        return np.nan_to_num(distances, nan=np.inf)
    lines2 = points1 @ model[:, :2].T + model[:, 2]
    lines1 = points2 @ model[:2] + model[2]
    algebraic = (points2 * lines2[..., :2]).sum(axis=-1) + lines2[..., 2]
    squares = (lines1[..., :2] ** 2).sum(axis=-1) + (lines2[..., :2] ** 2).sum(axis=-1)
    return np.abs(algebraic) / np.maximum(np.sqrt(squares), 1e-300)
