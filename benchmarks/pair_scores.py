"""Scores of the keypoints of two images whose homography is known: arrays in, numbers out."""

import numpy as np
from scipy.sparse import csgraph, csr_array
from scipy.spatial import KDTree

from doap_tf.features.frames import angles, radii, transform_frames, transform_points

_SCALE, _ANGLE = 0.5, np.radians(30)  # largest |log ratio| of radii and turn of the same keypoint


def repeatability(
    points1: np.ndarray,
    points2: np.ndarray,
    homography: np.ndarray,
    size1: tuple[int, int],
    size2: tuple[int, int],
    tolerance: float,
) -> float:
    """Share of the keypoints in the common area that the other image has within a tolerance.

    Args:
        points1, points2: Keypoints [N, 2] and [K, 2] of the two images.
        homography: From the first image to the second, in which distances are measured.
        size1, size2: Widths and heights of the images.
        tolerance: In pixels.
    """
    mapped = transform_points(points1, homography)
    mapped = mapped[np.isfinite(mapped).all(axis=1)]
    common1 = mapped[_inside(mapped, size2)]
    common2 = points2[_inside(transform_points(points2, np.linalg.inv(homography)), size1)]
    if not len(common1) or not len(common2):
        return 0.0
    # The nearest keypoint may lie just outside of the common area.
    distances = [KDTree(points2).query(common1)[0], KDTree(mapped).query(common2)[0]]
    return float(np.mean(np.concatenate(distances) <= tolerance))


def found_again(
    frames1: np.ndarray, frames2: np.ndarray, homography: np.ndarray, tolerance: float
) -> int:
    """Number of frames [N, 2, 3] that are among [K, 2, 3] at nearly their scale and orientation.

    One to one, so it is the number of possible matches.
    """
    mapped = transform_frames(frames1, homography)
    mapped = mapped[np.isfinite(mapped).all(axis=(1, 2))]
    if not len(mapped) or not len(frames2):
        return 0
    near = KDTree(mapped[:, :, 2]).sparse_distance_matrix(
        KDTree(frames2[:, :, 2]), tolerance, output_type="ndarray"
    )
    i, j = near["i"], near["j"]
    scales = np.log(radii(mapped)[i] / radii(frames2)[j])
    turns = (angles(mapped)[i] - angles(frames2)[j] + np.pi) % (2 * np.pi) - np.pi
    same = (np.abs(scales) < _SCALE) & (np.abs(turns) < _ANGLE)
    pairs = csr_array(
        (np.ones(same.sum(), bool), (i[same], j[same])), shape=(len(mapped), len(frames2))
    )
    return int(np.sum(csgraph.maximum_bipartite_matching(pairs) >= 0))


def _inside(points: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Which points [N, 2] lie in an image; not NaN."""
    return np.all((points >= 0) & (points <= np.array(size) - 1), axis=1)
