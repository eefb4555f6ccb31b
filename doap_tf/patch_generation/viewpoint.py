"""Random viewpoints of a photograph, taken as a plane: mild homographies."""

import cv2
import numpy as np

from doap_tf.features.pyramid_levels import BLUR

_CORNER = 0.15  # maximum displacement of a corner, in shorter sides of the image
_ROTATION = np.radians(15)  # standard deviation
_SCALES = (0.65, 1.25)


def change_viewpoint(image: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Warps uint8 [H, W] by a random homography; the whole image stays visible.

    Returns:
        The warped image, uint8 of another size, and the homography [3, 3] from `image` to it.
    """
    height, width = image.shape
    corners = np.array([[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]])
    scale = np.exp(rng.uniform(*np.log(_SCALES)))
    angle = rng.normal(0, _ROTATION)
    turn = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moved = corners + rng.uniform(-_CORNER, _CORNER, (4, 2)) * min(height, width)
    moved = moved @ turn.T
    moved -= moved.min(axis=0)
    homography = cv2.getPerspectiveTransform(corners.astype(np.float32), moved.astype(np.float32))
    if scale < 1:
        image = cv2.GaussianBlur(image, (0, 0), BLUR * np.sqrt(scale**-2 - 1))
    view_width, view_height = np.ceil(moved.max(axis=0)).astype(int) + 1
    view = cv2.warpPerspective(
        image,
        homography,
        (int(view_width), int(view_height)),
        flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return view, homography
