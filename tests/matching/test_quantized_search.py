import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import METHODS, Features, NearestNeighbours, match_descriptors
from doap_tf.matching.quantized_search import nearest_quantized
from doap_tf.metrics import NORM_HAMMING, NORM_L2, nearest_both_ways


def descriptors(count1, count2, dimension=64, scale=1.0, seed=0):
    """Two sets that share half of their rows up to noise, of unequal lengths."""
    random = np.random.default_rng(seed)
    first = random.normal(size=(count1, dimension))
    second = random.normal(size=(count2, dimension))
    shared = min(count1, count2) // 2
    second[:shared] = first[:shared] + random.normal(scale=0.5, size=(shared, dimension))
    return (scale * first).astype(np.float32), (scale * second[::-1]).astype(np.float32)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 512.0])
@pytest.mark.parametrize("k", [1, 2])
def test_neighbours_are_those_of_the_exact_search(k, scale):
    queries, database = descriptors(700, 500, scale=scale)
    indices, distances, back = nearest_quantized(queries, database, NORM_L2, k)
    exact_indices, exact_distances, exact_back = nearest_both_ways(queries, database, NORM_L2, k)
    assert (indices[:, 0] == exact_indices[:, 0]).mean() > 0.995
    assert (back == exact_back).mean() > 0.99
    assert indices.shape == exact_indices.shape and indices.dtype == exact_indices.dtype
    # A missed neighbour is hardly nearer than the one found in its place.
    np.testing.assert_allclose(distances, exact_distances, rtol=0.01)
    same = indices == exact_indices
    np.testing.assert_allclose(distances[same], exact_distances[same], rtol=1e-6)


def test_ties_go_to_the_lowest_index():
    queries, database = descriptors(40, 30)
    indices, _, back = nearest_quantized(
        np.concatenate([queries, queries]), np.concatenate([database, database]), NORM_L2, 2
    )
    assert (indices[:, 1] == indices[:, 0] + 30).all() and (indices[:, 0] < 30).all()
    assert (back < 40).all()


@pytest.mark.parametrize("size", [1, 4, 32])
@pytest.mark.parametrize("k", [1, 2])
def test_bits_have_the_neighbours_of_the_exact_search_ties_included(k, size):
    random = np.random.default_rng(size)
    queries = random.integers(0, 256, (300, size), np.uint8)
    database = random.integers(0, 256, (400, size), np.uint8)
    database[:100], database[300:] = 0, database[:1]  # extremes, and rows that are equal
    queries[:50], queries[50:60] = database[40:90], 255
    found = nearest_quantized(queries, database, NORM_HAMMING, k)
    exact = nearest_both_ways(queries, database, NORM_HAMMING, k)
    for mine, theirs in zip(found, exact, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("counts", [(1, 2), (128, 5), (129, 5)])
def test_any_number_of_queries(counts):
    queries, database = descriptors(*counts)
    indices, distances, back = nearest_quantized(queries, database, NORM_L2)
    expected = nearest_both_ways(queries, database, NORM_L2)
    np.testing.assert_array_equal(indices, expected[0])
    np.testing.assert_allclose(distances, expected[1], rtol=1e-6)
    np.testing.assert_array_equal(back, expected[2])


def features_of(rows, norm):
    return [
        Features(np.zeros((len(side), 2, 3)), np.zeros(len(side), np.float32), side, norm, (9, 9))
        for side in rows
    ]


@pytest.mark.parametrize("size", [32, 64])
def test_many_features_of_any_number_of_bits_are_matched_exactly(size):
    rows = [np.packbits(side > 0, axis=1) for side in descriptors(1500, 1100, dimension=8 * size)]
    matches = NearestNeighbours("mutual").match(*features_of(rows, cv2.NORM_HAMMING))
    indices, distances = match_descriptors(*rows, cv2.NORM_HAMMING, "mutual")
    np.testing.assert_array_equal(matches.indices, indices)
    np.testing.assert_array_equal(matches.distances, distances)


@pytest.mark.parametrize("method", METHODS)
def test_many_features_are_matched_in_8_bits_as_exactly(method):
    rows = descriptors(1500, 1100)
    matches = NearestNeighbours(method, ratio=0.9).match(*features_of(rows, cv2.NORM_L2))
    found = set(map(tuple, matches.indices.tolist()))
    exact = set(map(tuple, match_descriptors(*rows, cv2.NORM_L2, method, 0.9)[0].tolist()))
    assert len(found & exact) >= 0.995 * len(found | exact) > 0


def test_descriptors_that_cannot_be_compared_are_refused():
    queries, database = descriptors(9, 9)
    database[3] = np.nan
    with pytest.raises(InputError, match="row 3"):
        match_descriptors(queries, database, cv2.NORM_L2, quantized=True)
