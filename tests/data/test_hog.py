import math

import numpy as np

from doap_tf.data.hog import hog


def slow_hog(patch):
    """UoCTTI HOG of one patch, a pixel and a cell at a time."""
    height, width = patch.shape
    rows, columns = height // 8, width // 8
    votes = np.zeros([rows, columns, 18])
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            dx = float(patch[y, x + 1]) - float(patch[y, x - 1])
            dy = float(patch[y + 1, x]) - float(patch[y - 1, x])
            best, direction = 0.0, 0
            for k in range(9):
                along = dx * math.cos(k * math.pi / 9) + dy * math.sin(k * math.pi / 9)
                if abs(along) > best + 1e-6:
                    best, direction = abs(along), k if along > 0 else k + 9
            u, v = (x + 0.5) / 8 - 0.5, (y + 0.5) / 8 - 0.5
            for row in (math.floor(v), math.floor(v) + 1):
                for column in (math.floor(u), math.floor(u) + 1):
                    if 0 <= row < rows and 0 <= column < columns:
                        share = (1 - abs(v - row)) * (1 - abs(u - column))
                        votes[row, column, direction] += share * math.hypot(dx, dy)

    def energy(row, column):
        cell = votes[min(max(row, 0), rows - 1), min(max(column, 0), columns - 1)]
        return sum((cell[k] + cell[k + 9]) ** 2 for k in range(9))

    features = np.zeros([rows, columns, 31])
    for row in range(rows):
        for column in range(columns):
            cell = votes[row, column]
            for block, (up, left) in enumerate([(-1, -1), (-1, 0), (0, -1), (0, 0)]):
                norm = math.sqrt(
                    sum(energy(row + up + i, column + left + j) for i in (0, 1) for j in (0, 1))
                    + 1e-10
                )
                for k in range(18):
                    features[row, column, k] += min(cell[k] / norm, 0.2) / 2
                    features[row, column, 27 + block] += min(cell[k] / norm, 0.2) / math.sqrt(18)
                for k in range(9):
                    both = cell[k] + cell[k + 9]
                    features[row, column, 18 + k] += min(both / norm, 0.2) / 2
    return features


def test_against_a_slow_reference():
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, [2, 24, 40], np.uint8)
    steps = np.kron(rng.integers(0, 256, [2, 6, 10], np.uint8), np.ones([4, 4], np.uint8))
    patches = np.concatenate([noise, steps])
    features = hog(patches)
    assert features.shape == (4, 3, 5, 31) and features.dtype == np.float32
    for patch, found in zip(patches, features, strict=True):
        np.testing.assert_allclose(found, slow_hog(patch), atol=1e-5)


def test_more_patches_than_a_block():
    patches = np.random.default_rng(0).integers(0, 256, [70, 16, 16], np.uint8)
    assert np.array_equal(hog(patches)[65:], hog(patches[65:]))


def test_a_constant_patch_has_no_gradients():
    assert not hog(np.full([1, 64, 64], 77, np.uint8)).any()
