"""Distances and nearest neighbours against OpenCV and float64 loops, in any blocks."""

import tracemalloc

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.metrics import (
    NORM_HAMMING,
    NORM_L2,
    distance_matrix,
    nearest,
    nearest_both_ways,
    paired_distances,
)


def real(rng, count, width=24):
    rows = rng.standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def bits(rng, count, width=24):
    return rng.integers(0, 256, (count, width), np.uint8)


KINDS = pytest.mark.parametrize(
    ("norm", "make"), [(NORM_L2, real), (NORM_HAMMING, bits)], ids=["l2", "hamming"]
)


def plain_distances(first, second, norm):
    if norm == NORM_HAMMING:
        first, second = (np.unpackbits(side, axis=1).astype(int) for side in (first, second))
        return np.abs(first[:, None] - second[None]).sum(axis=2)
    difference = first[:, None].astype(np.float64) - second[None]
    return np.sqrt(np.square(difference).sum(axis=2))


def test_constants_are_opencvs():
    assert (cv2.NORM_L2, cv2.NORM_HAMMING) == (NORM_L2, NORM_HAMMING)


@KINDS
def test_matrix_and_pairs(norm, make):
    rng = np.random.default_rng(0)
    queries, database = make(rng, 70), make(rng, 90)
    database[5] = queries[3]
    expected = plain_distances(queries, database, norm)
    np.testing.assert_allclose(distance_matrix(queries, database, norm), expected, rtol=1e-6)
    assert distance_matrix(queries, database, norm)[3, 5] == 0
    found = paired_distances(queries, database[:70], norm, memory_mb=0.01)
    np.testing.assert_allclose(found, np.diag(expected), rtol=1e-6)


@KINDS
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("memory_mb", [0.01, 512])
def test_neighbours_are_opencvs(norm, make, k, memory_mb):
    """Few values a component, so that many distances tie."""
    rng = np.random.default_rng(1)
    queries, database = make(rng, 300, 8), make(rng, 130, 8)
    if norm == NORM_L2:
        queries, database = np.rint(3 * queries), np.rint(3 * database)
    else:
        queries, database = queries & 1, database & 1
    expected = cv2.BFMatcher(norm).knnMatch(queries, database, k=k)
    indices, distances = nearest(queries, database, norm, k, memory_mb)
    assert indices.tolist() == [[match.trainIdx for match in row] for row in expected]
    np.testing.assert_allclose(
        distances, [[match.distance for match in row] for row in expected], rtol=1e-6
    )
    *both, back = nearest_both_ways(queries, database, norm, k, memory_mb)
    np.testing.assert_array_equal(both[0], indices)
    np.testing.assert_array_equal(both[1], distances)
    assert back.tolist() == [m.trainIdx for m in cv2.BFMatcher(norm).match(database, queries)]


@KINDS
def test_all_equal_gives_the_lowest_indices(norm, make):
    same = np.repeat(make(np.random.default_rng(2), 1), 40, axis=0)
    indices, distances = nearest(same, same, norm, k=3, memory_mb=0.01)
    assert (indices == [0, 1, 2]).all() and (distances == 0).all()


def test_near_neighbours_far_from_the_origin_are_told_apart():
    """In float32 the products of such rows would drown the differences between them."""
    rng = np.random.default_rng(3)
    database = (1000 + 1e-2 * rng.standard_normal((200, 32))).astype(np.float32)
    queries = database[::-1] + np.float32(1e-4)
    indices, _ = nearest(queries, database, NORM_L2)
    assert indices[:, 0].tolist() == list(range(200))[::-1]


@KINDS
@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (0, 0), (5, 1)])
def test_empty_and_single(norm, make, sizes):
    rng = np.random.default_rng(4)
    queries, database = make(rng, sizes[0]), make(rng, sizes[1])
    indices, distances = nearest(queries, database, norm, k=2)
    assert indices.shape == distances.shape == (sizes[0], 2)
    missing = np.arange(2) >= sizes[1]
    assert (indices[:, missing] == -1).all() and np.isinf(distances[:, missing]).all()
    assert (indices[:, ~missing] == 0).all() and np.isfinite(distances[:, ~missing]).all()
    assert distance_matrix(queries, database, norm).shape == sizes
    back = nearest_both_ways(queries, database, norm)[2]
    assert back.shape == (sizes[1],) and ((back == -1).all() or sizes[0])


@pytest.mark.parametrize("width", [1, 5, 8, 33])
def test_any_number_of_bytes(width):
    rng = np.random.default_rng(5)
    queries, database = bits(rng, 9, width), bits(rng, 11, width)
    expected = plain_distances(queries, database, NORM_HAMMING)
    assert (distance_matrix(queries, database, NORM_HAMMING) == expected).all()


@KINDS
def test_memory_limit_holds(norm, make, monkeypatch):
    monkeypatch.setattr("doap_tf.parallel.cores", lambda: 2)  # each takes a little more
    rng = np.random.default_rng(6)
    queries, database = make(rng, 4000), make(rng, 4000)
    limit = 8
    tracemalloc.start()
    try:
        nearest_both_ways(queries, database, norm, k=2, memory_mb=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All distances at once would take 32 MB at the least.
    assert peak < limit * 2**20


@pytest.mark.parametrize(
    ("queries", "database", "norm", "named"),
    [
        (np.zeros((2, 3)), np.zeros((2, 4)), NORM_L2, "two widths.*3 and 4"),
        (np.zeros((2, 3)), np.full((2, 3), np.nan), NORM_L2, "database.*row 0"),
        (np.zeros(3), np.zeros((2, 3)), NORM_L2, r"queries.*\[3\]"),
        (np.zeros((2, 3)), np.zeros((2, 3)), NORM_HAMMING, "queries.*float64"),
        (np.zeros((2, 3)), np.zeros((2, 3)), 2, "norm.*2"),
    ],
)
def test_bad_descriptors_are_named(queries, database, norm, named):
    with pytest.raises(InputError, match=named):
        nearest(queries, database, norm)


def test_pairs_of_unequal_length_are_an_error():
    with pytest.raises(InputError, match="2 and 3"):
        paired_distances(np.zeros((2, 4)), np.zeros((3, 4)), NORM_L2)


def test_no_neighbours_asked_for_is_an_error():
    with pytest.raises(InputError, match="k must be at least 1"):
        nearest(np.zeros((2, 4)), np.zeros((3, 4)), NORM_L2, k=0)
