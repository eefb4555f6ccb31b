"""The levels of the Gaussian pyramid that patches are cut from, with OpenCV or in a graph.

A patch whose longer axis steps over s image pixels from one patch pixel to the next is sampled from
the image smoothed by a Gaussian of σ_k = 0.6·√(2^k − 1) pixels, k the smallest integer with
s ≤ 2^(k/2); where s ≤ 1 the image is not smoothed. Taking the image's own blur as 0.6 pixels, the
blur of a patch is thus 0.6 to 0.85 of its pixels, whatever the size of the frame.

The longer axis decides because no direction may alias; the shorter axis of an ellipse is smoothed
more than necessary, by the ratio of the axes.
"""

import math

BLUR = 0.6  # σ of the blur assumed in the image, and of the least blur in a patch; in pixels
MARGIN = 16  # pixels of repeated border on every grid: more than its Gaussian reaches
_GRID_BLUR = 1.5  # σ, in pixels of its grid, below which a level is not decimated


def level_sigma(level: int) -> float:
    """σ, in pixels of the image, by which a level is smoothed."""
    return BLUR * math.sqrt(2.0**level - 1)


def longest_step(level: int) -> float:
    """Most image pixels from one patch pixel to the next for which a level is used."""
    # The tolerance lets a frame made for one step per pixel, in floating point, use level 0.
    return 2 ** ((level + 1e-6) / 2)


def halvings(level: int) -> int:
    """How many times the image is halved at a level.

    The whole blur is then at least 1.5 pixels of the grid, so that neither the decimation nor
    bilinear interpolation does visible harm.
    """
    return max(0, math.floor(math.log2(BLUR / _GRID_BLUR) + level / 2))


def added_sigma(level: int) -> float:
    """σ, in pixels of the grid of level − 1, that takes level − 1 to `level`."""
    return math.sqrt(level_sigma(level) ** 2 - level_sigma(level - 1) ** 2) / 2 ** halvings(
        level - 1
    )
