"""Pictures of keypoints on two views of a place."""

import numpy as np
import PIL.Image
import PIL.ImageDraw

_GAP = 4
_RADIUS = 3
_ZOOM = 2  # pixels of the picture, along each axis, per pixel of a view
_TOLERANCE = 3.0  # pixels of the second view within which a keypoint is repeated
_REPEATED, _ALONE = (90, 230, 60), (240, 80, 60)  # RGB


def draw_keypoints(
    first: np.ndarray,
    second: np.ndarray,
    points1: np.ndarray,
    points2: np.ndarray,
    homography: np.ndarray,
) -> np.ndarray:
    """Draws keypoints as circles on two views side by side; green ones are repeated.

    Args:
        first, second: uint8 [H, W], of the same height.
        points1, points2: x, y [N, 2] and [M, 2].
        homography: [3, 3], of the pixels of the first view to those of the second.

    Returns:
        BGR [H, W, 3].
    """
    there = np.c_[points1, np.ones(len(points1))] @ np.asarray(homography, np.float64).T
    there = there[:, :2] / there[:, 2:]
    near = np.linalg.norm(there[:, np.newaxis] - points2, axis=2) <= _TOLERANCE
    panels = [
        _panel(view, points, repeated)
        for view, points, repeated in (
            (first, points1, near.any(axis=1)),
            (second, points2, near.any(axis=0)),
        )
    ]
    gap = np.full([len(panels[0]), _GAP, 3], 255, np.uint8)
    return np.concatenate([panels[0], gap, panels[1]], axis=1)


def _panel(view: np.ndarray, points: np.ndarray, repeated: np.ndarray) -> np.ndarray:
    image = PIL.Image.fromarray(view.repeat(_ZOOM, 0).repeat(_ZOOM, 1)).convert("RGB")
    draw = PIL.ImageDraw.Draw(image)
    for (x, y), is_repeated in zip((points + 0.5) * _ZOOM - 0.5, repeated, strict=True):
        draw.ellipse(
            (x - _RADIUS, y - _RADIUS, x + _RADIUS, y + _RADIUS),
            outline=_REPEATED if is_repeated else _ALONE,
        )
    return np.asarray(image)[..., ::-1]
