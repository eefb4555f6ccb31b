import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import METHODS, match_descriptors

NORMS = (cv2.NORM_L2, cv2.NORM_HAMMING)


def descriptors(norm, count1=120, count2=90, ties=False):
    """Two sets that share half of their rows up to noise; few distinct values give many ties."""
    random = np.random.default_rng(count1 + 7 * ties)
    if norm == cv2.NORM_HAMMING:
        sets = random.integers(0, 2 if ties else 256, (2, max(count1, count2), 1 if ties else 8))
        return sets[0, :count1].astype(np.uint8), sets[1, :count2].astype(np.uint8)
    if ties:
        sets = random.integers(0, 2, (2, max(count1, count2), 4)).astype(np.float32)
        return sets[0, :count1], sets[1, :count2]
    first = random.normal(size=(count1, 16)).astype(np.float32)
    second = random.normal(size=(count2, 16)).astype(np.float32)
    shared = min(count1, count2) // 2
    noise = random.normal(scale=0.3, size=(shared, 16))
    second[:shared] = first[:shared] + noise
    return first, second


def by_opencv(first, second, norm, method, ratio):
    """The matches of BFMatcher as (row, row), by the recipes of OpenCV's tutorials."""
    if method == "nearest":
        return {(m.queryIdx, m.trainIdx) for m in cv2.BFMatcher(norm).match(first, second)}
    if method == "mutual":
        matcher = cv2.BFMatcher(norm, crossCheck=True)
        return {(m.queryIdx, m.trainIdx) for m in matcher.match(first, second)}
    passed = {
        (best.queryIdx, best.trainIdx)
        for best, rival in cv2.BFMatcher(norm).knnMatch(first, second, k=2)
        if best.distance < ratio * rival.distance
    }
    if method == "ratio":
        return passed
    back = {m.queryIdx: m.trainIdx for m in cv2.BFMatcher(norm).match(second, first)}
    return {(row, column) for row, column in passed if back[column] == row}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ties", [False, True])
def test_matches_are_those_of_opencv(norm, method, ties):
    first, second = descriptors(norm, ties=ties)
    indices, _ = match_descriptors(first, second, norm, method, ratio=0.9)
    found = set(map(tuple, indices.tolist()))
    assert found == by_opencv(first, second, norm, method, 0.9)
    assert len(found) == len(indices)
    assert found or ties


@pytest.mark.parametrize("norm", NORMS)
def test_distances_are_those_between_the_matched_rows(norm):
    first, second = descriptors(norm)
    indices, distances = match_descriptors(first, second, norm)
    a, b = first[indices[:, 0]], second[indices[:, 1]]
    if norm == cv2.NORM_L2:
        expected = np.sqrt(np.square(a.astype(float) - b).sum(axis=1))
    else:
        expected = np.unpackbits(a ^ b, axis=1).sum(axis=1)
    np.testing.assert_allclose(distances, expected, rtol=1e-5)
    assert (np.diff(indices[:, 0]) > 0).all()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (0, 0)])
def test_nothing_on_one_side_gives_no_matches(norm, method, counts):
    first, second = descriptors(norm)
    indices, distances = match_descriptors(first[: counts[0]], second[: counts[1]], norm, method)
    assert indices.shape == (0, 2) and distances.shape == (0,)


@pytest.mark.parametrize("norm", NORMS)
def test_a_lone_candidate_passes_the_ratio_test_and_a_tie_does_not(norm):
    first, second = descriptors(norm)
    lone, _ = match_descriptors(first[:3], second[:1], norm, "ratio")
    assert lone.tolist() == [[0, 0], [1, 0], [2, 0]]
    twins = second[[0, 0]]
    assert len(match_descriptors(first[:3], twins, norm, "ratio", ratio=1.0)[0]) == 0
    assert len(match_descriptors(second[:1], twins, norm, "ratio")[0]) == 0


@pytest.mark.parametrize("norm", NORMS)
def test_little_memory_gives_the_same_matches(norm):
    first, second = descriptors(norm)
    for method in METHODS:
        whole = match_descriptors(first, second, norm, method, ratio=0.9)
        blocked = match_descriptors(first, second, norm, method, ratio=0.9, memory_mb=0.02)
        for values, expected in zip(blocked, whole, strict=True):
            np.testing.assert_array_equal(values, expected)


def test_bad_arguments_are_named():
    first, second = descriptors(cv2.NORM_L2)
    for arguments, message in (
        ((first, second, cv2.NORM_L2, "best"), "method.*best"),
        ((first, second, cv2.NORM_L2, "ratio", 0.0), "ratio"),
        ((first, second[:, :5], cv2.NORM_L2), "widths"),
        ((first, second, cv2.NORM_L1), "norm"),
        ((first, second, cv2.NORM_HAMMING), "uint8"),
    ):
        with pytest.raises(InputError, match=message):
            match_descriptors(*arguments)
