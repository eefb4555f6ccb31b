"""Judging a pair of images: which geometry its matches support, and whether beyond chance.

What a model explains by chance is measured on the matches themselves: first points are paired with
second points of other matches, and the share of these wrong pairs that fit the model is its chance.
It is large where points crowd in one spot or on one line, and where a model has collapsed, so that
such inliers are no evidence. Matches that do not fit are also paired with their neighbours, and the
larger share counts: wrong matches may keep to the same part of the image, as those of points near
the top with points near the top, which level epipolar lines explain too often. Nor do wrong matches
along epipolar lines keep together: an inlier counts only if one near it stays near it.
"""

import math

import numpy as np

from doap_tf.matching.model_residuals import model_residuals

#: Matches that determine each geometry.
SAMPLES = {"homography": 4, "fundamental": 7}
#: Digits of evidence from which a pair is reliable: chance gives so many inliers to one pair in a
#: hundred at most. Measured by benchmarks/verdict.py.
RELIABLE_EVIDENCE = 2.0
#: Digits from which matches off a plane are parallax. Rows of windows, which repeat along epipolar
#: lines, reach some twenty.
PARALLAX_EVIDENCE = 30.0
_CELL = 12.0  # pixels
_CROWDED = 0.25  # share of inliers that still fit when paired anew
_PARTNERS = 256  # with which a point is paired anew, at most
_NEIGHBOURS = 24  # with which a match that does not fit is paired anew
_COMPANIONS = 4  # nearest inliers, one of which stays near
_STRETCH = 2.0  # of the distance to a companion, besides the scale of all
_OFF_PLANE = 3.0  # thresholds from where a homography maps a match
_BLOCK = 1 << 15  # numbers computed at a time
_PARALLAX_SAMPLE = 2  # matches that determine a fundamental matrix if a homography is known


def evidence(
    points1: np.ndarray,
    points2: np.ndarray,
    geometry: str,
    model: np.ndarray,
    threshold: float,
    sample: int | None = None,
) -> float:
    """Returns the digits of evidence that matches show the same scene; 0 if chance explains them.

    This is −log10 of the expected number of models of a sample of the matches with as many inliers
    by chance (the number of false alarms of an a-contrario test), bounded by Chernoff. Matches
    whose points share a cell of 12 pixels in either image, as those of one point at several scales,
    count once. An inlier counts if in either image one of the four nearest inliers is at most twice
    as far away in the other image, at the scale of all, and half a cell. Inliers are no evidence if
    they lie on one line, or if more than a quarter of them still fit when they are paired anew, as
    in one spot.

    Args:
        points1: float64 [M, 2] in pixels of the first image.
        points2: float64 [M, 2], their matches in the second.
        geometry: `"homography"` or `"fundamental"`, the kind of the model.
        model: float64 [3, 3] from the first image to the second.
        threshold: Pixels within which a match is an inlier.
        sample: Matches that the model was free to fit; by default those that determine it.
    """
    inliers = model_residuals(points1, points2, geometry, model) <= threshold
    rows = _one_per_cell(points1, points2, inliers)
    points1, points2, inliers = points1[rows], points2[rows], inliers[rows]
    sample = sample or SAMPLES[geometry]
    inliers1, inliers2 = points1[inliers], points2[inliers]
    if len(inliers1) <= sample or min(_width(inliers1), _width(inliers2)) < _CELL / 2:
        return 0.0
    trials = len(rows) - sample
    successes = int(_share_together(inliers1, inliers2) * len(inliers1)) - sample
    if successes <= 0:
        return 0.0
    hits, pairs = _paired_anew(inliers1, inliers2, geometry, model, threshold)
    if hits > _CROWDED * pairs:
        return 0.0
    chance = _chance(points1, points2, inliers, geometry, model, threshold)
    share = successes / trials
    if share <= chance:
        return 0.0
    nats = successes * math.log(share / chance)
    if successes < trials:
        nats += (trials - successes) * math.log((1 - share) / (1 - chance))
    return max(0.0, nats / math.log(10) - math.log10(math.comb(len(rows), sample)))


def confidence(digits: float) -> float:
    """Returns evidence as a number 0…1, 0.5 from where a pair is reliable."""
    return digits / (digits + RELIABLE_EVIDENCE)


def is_reliable(confidence: float | None) -> bool | None:
    """Whether matches show the same scene; None if they were not judged."""
    return None if confidence is None else confidence >= 0.5


def has_parallax(
    points1: np.ndarray,
    points2: np.ndarray,
    plane_residuals: np.ndarray,
    fundamental: np.ndarray,
    threshold: float,
) -> bool:
    """Whether a fundamental matrix explains matches that a homography does not, beyond chance.

    These are farther than three thresholds from where the homography maps them. The matches of a
    plane, and of a camera that only turns, have no parallax.

    Args:
        points1, points2, threshold: As for `evidence`.
        plane_residuals: float64 [M], distances from the homography in pixels.
        fundamental: float64 [3, 3].
    """
    off = plane_residuals > _OFF_PLANE * threshold
    matches = points1[off], points2[off]
    digits = evidence(*matches, "fundamental", fundamental, threshold, _PARALLAX_SAMPLE)
    return digits >= PARALLAX_EVIDENCE


def _one_per_cell(points1: np.ndarray, points2: np.ndarray, inliers: np.ndarray) -> np.ndarray:
    """Rows of matches no two of which share a cell in either image; inliers come first."""
    rows = np.argsort(~inliers, kind="stable")
    for points in (points1, points2):
        x, y = np.floor(points[rows] / _CELL).astype(np.int64).T
        rows = rows[np.sort(np.unique((x << 32) + y, return_index=True)[1])]
    return rows


def _width(points: np.ndarray) -> float:
    """The standard deviation of points [N, 2] in the direction in which it is smallest."""
    return math.sqrt(max(0.0, np.linalg.eigvalsh(np.cov(points.T, bias=True))[0]))


def _share_together(points1: np.ndarray, points2: np.ndarray) -> float:
    """The share of matches with a companion in either image that stays near in the other."""
    rows = _at_most(_PARTNERS, np.arange(len(points1)))
    together = np.ones(len(points1), bool)
    for here, there in ((points1, points2), (points2, points1)):
        scale = math.sqrt(there.var(axis=0).sum() / here.var(axis=0).sum())
        companions, matches = _neighbours(here, rows, _COMPANIONS)
        before, after = (
            np.linalg.norm(points[companions] - points[matches], axis=1) for points in (here, there)
        )
        stays = matches[after <= _STRETCH * scale * before + _CELL / 2]
        together &= np.isin(np.arange(len(points1)), stays)
    return float(together[rows].mean())


def _chance(
    points1: np.ndarray,
    points2: np.ndarray,
    inliers: np.ndarray,
    geometry: str,
    model: np.ndarray,
    threshold: float,
) -> float:
    """The share of wrong pairs that fit: of any matches, or of neighbours if that is larger."""
    hits, pairs = _paired_anew(points1, points2, geometry, model, threshold)
    wrong = _at_most(_PARTNERS, np.flatnonzero(~inliers))
    nearby = 0.0
    for points in (points1, points2) if len(wrong) else ():
        rows, partners = _neighbours(points, wrong, _NEIGHBOURS)
        fits = model_residuals(points1[rows], points2[partners], geometry, model) <= threshold
        nearby = max(nearby, float(fits.mean()))
    return max((hits + 1) / (pairs + 1), nearby + 1 / (_NEIGHBOURS * len(points1)))


def _neighbours(points: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The matches whose points are nearest to those of some rows, each with the row it is near."""
    columns = np.ascontiguousarray(points.T, np.float32)
    last = min(count, len(points) - 1)  # of which the first is the point itself
    nearest, partners = [], []
    for block in _blocks(rows, len(points)):
        x, y = (column[block, np.newaxis] - column for column in columns)
        squares = x * x + y * y
        near = squares <= np.partition(squares, last, axis=1)[:, [last]]
        near[np.arange(len(block)), block] = False
        numbers, found = np.divmod(np.flatnonzero(near), len(points))
        nearest.append(found)
        partners.append(block[numbers])
    return np.concatenate(nearest), np.concatenate(partners)


def _paired_anew(
    points1: np.ndarray, points2: np.ndarray, geometry: str, model: np.ndarray, threshold: float
) -> tuple[int, int]:
    """How many pairs of points of different matches fit a model, and of how many."""
    partners = _at_most(_PARTNERS, np.arange(len(points1)))
    others, hits = points2[partners], 0
    for rows in _blocks(np.arange(len(points1)), len(partners)):
        residuals = model_residuals(points1[rows, np.newaxis], others, geometry, model)
        hits += int(((residuals <= threshold) & (rows[:, np.newaxis] != partners)).sum())
    return hits, (len(points1) - 1) * len(partners)


def _blocks(rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Splits rows so that a block of this width stays in the processor's cache."""
    return np.array_split(rows, -(-len(rows) * width // _BLOCK) or 1)


def _at_most(count: int, rows: np.ndarray) -> np.ndarray:
    """So many of the rows, at equal distances."""
    count = min(count, len(rows))
    return rows[np.arange(count) * len(rows) // max(count, 1)]
