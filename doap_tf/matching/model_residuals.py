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
    # Coordinate by coordinate: sums along an axis of two take several times as long.
    (x1, y1), (x2, y2) = np.moveaxis(points1, -1, 0), np.moveaxis(points2, -1, 0)
    if geometry == "homography":
        mapped_x, mapped_y = np.moveaxis(transform_points(points1, model), -1, 0)
        return np.nan_to_num(np.sqrt((mapped_x - x2) ** 2 + (mapped_y - y2) ** 2), nan=np.inf)
    a1, b1 = (row[0] * x2 + row[1] * y2 + row[2] for row in model.T[:2])
    a2, b2, c2 = (row[0] * x1 + row[1] * y1 + row[2] for row in model)
    algebraic = x2 * a2 + y2 * b2 + c2
    squares = (a1 * a1 + b1 * b1) + (a2 * a2 + b2 * b2)
    return np.abs(algebraic) / np.maximum(np.sqrt(squares), 1e-300)
