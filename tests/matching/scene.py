"""A photograph and another view of it under a known homography."""

import functools

import cv2
import numpy as np

from doap_tf.features.frames import transform_points
from tests.features.pictures import photograph

HOMOGRAPHY = np.array([[0.94, -0.17, 50.0], [0.15, 0.9, 8.0], [1e-4, -5e-5, 1.0]])


@functools.cache
def views():
    """Two images, uint8 [300, 400], the second showing the first under `HOMOGRAPHY`."""
    image = photograph("astronaut")[:300, 60:460]
    size = image.shape[::-1]
    return image, cv2.warpPerspective(image, HOMOGRAPHY, size, borderMode=cv2.BORDER_REFLECT)


def corner_error(model, homography=HOMOGRAPHY, width=400, height=300):
    """Mean distance of an image's corners under two homographies."""
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)], float)
    difference = transform_points(corners, model) - transform_points(corners, homography)
    return np.linalg.norm(difference, axis=1).mean()
