"""Counting matches by place: a structure that is detected at several scales counts once."""

import numpy as np

DISTANCE = 3.0  # in pixels


def distinct_places(points: np.ndarray, distance: float = DISTANCE) -> np.ndarray:
    """Keeps a point unless an earlier one that is kept lies within a distance of it.

    Args:
        points: [N, 2], of right matches in one image, the strongest first.
        distance: In pixels.

    Returns:
        bool [N], which points are kept; their number is that of the distinct places.
    """
    from scipy.spatial import KDTree  # which a light installation lacks

    kept = np.ones(len(points), bool)
    if not len(points):
        return kept
    for row, near in enumerate(KDTree(points).query_ball_point(points, distance)):
        if kept[row]:
            near = np.array(near)
            kept[near[near > row]] = False
    return kept
