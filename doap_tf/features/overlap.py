"""Overlap of elliptical frames: intersection over union, pairs that overlap, and thinning."""

import numpy as np

from doap_tf.features.frames import radii, scale_frames, semi_axes

_BLOCK = 1 << 14

# Nodes of the quadrature over a chord parameter θ in (−π/2, π/2): x = sin θ takes the square roots
# at both ends of the interval out of the integrand.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(48)
_SINE, _DX = np.sin(_NODES * np.pi / 2), _WEIGHTS * np.cos(_NODES * np.pi / 2) * np.pi / 2


def ellipse_overlap(
    frames: np.ndarray, others: np.ndarray, normalised_radius: float | None = None
) -> np.ndarray:
    """Intersection over union [N] of each ellipse of `frames` [N, 2, 3] with that of `others`.

    Args:
        normalised_radius: For the protocol of Mikolajczyk et al. (30 there): both ellipses are
            first scaled about their own centres by the factor that brings the first to this
            radius. Centre distances stay in pixels, so small frames are judged less severely.
            The protocol's overlap error is one minus the result.
    """
    overlap = np.empty(len(frames))
    for start in range(0, len(frames), _BLOCK):
        block = slice(start, start + _BLOCK)
        first, second = frames[block], others[block]
        if normalised_radius is not None:
            factor = normalised_radius / radii(first)
            first, second = scale_frames(first, factor), scale_frames(second, factor)
        overlap[block] = _overlap(first, second)
    return overlap


def _overlap(frames: np.ndarray, others: np.ndarray) -> np.ndarray:
    # In the first frame's coordinates the first ellipse is the unit circle; the area common with
    # the second is the integral over x of the length common to both vertical chords.
    inverse = np.linalg.inv(frames[:, :, :2])
    linear = inverse @ others[:, :, :2]
    centre_x, centre_y = np.einsum("nij,nj->in", inverse, others[:, :, 2] - frames[:, :, 2])
    covariance = linear @ linear.transpose(0, 2, 1)
    area = np.abs(np.linalg.det(linear))
    half_width = np.sqrt(covariance[:, 0, 0])
    slope = covariance[:, 0, 1] / covariance[:, 0, 0]
    half_height = area / half_width

    left = np.maximum(-1.0, centre_x - half_width)
    right = np.minimum(1.0, centre_x + half_width)
    half = np.maximum(right - left, 0.0)[:, None] / 2
    x = (left + right)[:, None] / 2 + half * _SINE
    circle = np.sqrt(np.maximum(1 - x**2, 0.0))
    offset = x - centre_x[:, None]
    middle = centre_y[:, None] + slope[:, None] * offset
    chord = half_height[:, None] * np.sqrt(np.maximum(1 - (offset / half_width[:, None]) ** 2, 0))
    common = np.minimum(circle, middle + chord) - np.maximum(-circle, middle - chord)
    intersection = (np.maximum(common, 0.0) * half) @ _DX
    return intersection / (np.pi * (1 + area) - intersection)


def overlapping_pairs(
    frames: np.ndarray,
    others: np.ndarray,
    minimum: float,
    normalised_radius: float | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds all pairs whose overlap is at least `minimum` > 0.

    Args:
        frames, others: [N, 2, 3] and [M, 2, 3].
        normalised_radius: As in `ellipse_overlap`. Pairs farther apart than four radii of the
            first ellipse (before scaling) are then left out, as in the protocol.

    Returns:
        Indices into `frames`, indices into `others` and overlaps, each [P], sorted by the first
        index and then the second.
    """
    rows, columns = _candidates(frames, others, minimum, normalised_radius)
    overlap = ellipse_overlap(frames[rows], others[columns], normalised_radius)
    kept = overlap >= minimum
    return rows[kept], columns[kept], overlap[kept]


def _candidates(
    frames: np.ndarray, others: np.ndarray, minimum: float, normalised_radius: float | None
) -> tuple[np.ndarray, np.ndarray]:
    radius, other_radius = radii(frames), radii(others)
    if normalised_radius is None:
        reach = semi_axes(frames)[:, 0]
        other_reach = semi_axes(others)[:, 0]
    else:
        reach, other_reach = 4 * radius, np.zeros(len(others))
    pairs = []
    for start in range(0, len(frames), 256):
        block = slice(start, start + 256)
        distance = np.hypot(
            frames[block, 0, 2, None] - others[:, 0, 2], frames[block, 1, 2, None] - others[:, 1, 2]
        )
        # The smaller area over the larger bounds the overlap from above.
        ratio = (radius[block, None] / other_radius) ** 2
        near = distance < reach[block, None] + other_reach
        near &= (ratio >= minimum) & (ratio * minimum <= 1)
        row, column = np.nonzero(near)
        pairs.append((row + start, column))
    if not pairs:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    return np.concatenate([r for r, _ in pairs]), np.concatenate([c for _, c in pairs])


def thin(frames: np.ndarray, maximum: float, limit: int | None = None) -> np.ndarray:
    """Thins frames out so that no two of the remaining ones overlap by more than `maximum`.

    Frames are visited in order; one that overlaps a frame already kept is dropped, until `limit`
    are kept.

    Returns:
        Indices of the frames kept, ascending.
    """
    excessive = np.nextafter(maximum, 1.0)
    kept = np.zeros(0, np.intp)
    for start in range(0, len(frames), 256):
        if limit is not None and len(kept) >= limit:
            break
        block = np.arange(start, min(start + 256, len(frames)))
        crowded, _, _ = overlapping_pairs(frames[block], frames[kept], excessive)
        block = np.delete(block, crowded)
        earlier, later, _ = overlapping_pairs(frames[block], frames[block], excessive)
        stays = np.ones(len(block), dtype=bool)
        for i, j in zip(earlier, later, strict=True):  # ascending, so i is settled when it comes
            if i < j and stays[i]:
                stays[j] = False
        kept = np.concatenate([kept, block[stays]])
    return kept[:limit]
