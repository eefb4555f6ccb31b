"""How keypoints are found in a network's scores, with OpenCV or in a graph."""

import math
from typing import Any

STEP = 2**0.5  # between the levels of the pyramid
SMALLEST_SIDE = 32  # of a level, unless the image is smaller
SMOOTHING = 1.3  # σ by which scores are smoothed, because those of a block's pixels vary
RADIUS = 2  # of non-maximum suppression, in pixels of the level
BORDER = 4  # pixels of each level where nothing is searched
TEXTURE = 11  # side of the square around a keypoint that must not be of one grey value
THRESHOLD = -2.0  # least score of a keypoint, a logit
MEAN, DEVIATION = 128.0, 80.0  # of the grey values of an image, as a keypoint network is given it
LEAST_DEVIATION = 10.0  # images of less contrast are given no more than ones of this


def network_margin(stride: int, receptive_field: int) -> int:
    """Pixels around a block on which a network's scores in it depend, as whole blocks."""
    return stride * math.ceil((receptive_field / stride - 1) / 2)


def paraboloid_vertex(neighbours: Any) -> tuple[Any, Any, Any]:
    """Where the paraboloid through scores has its vertex.

    Args:
        neighbours: The scores of 3×3 pixels, row by row, nine arrays or tensors [N].

    Returns:
        Steps to the right and down as fractions: two numerators and their denominator, each [N].
    """
    a, b, c, d, here, e, f, g, h = neighbours
    dx, dy = (e - d) / 2, (g - b) / 2
    dxx, dyy, dxy = d + e - 2 * here, b + g - 2 * here, (a - c - f + h) / 4
    return dxy * dy - dyy * dx, dxy * dx - dxx * dy, dxx * dyy - dxy**2
