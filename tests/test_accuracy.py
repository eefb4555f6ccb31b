"""Guards accuracy: fails when a change makes keypoints, patches, descriptors or matches worse.

The bands are several times wider than the differences between machines, and narrower than what
patches cut half a pixel off, a pyramid without its blur or keypoints a quarter of a pixel off cost.
"""

import numpy as np
import pytest
import skimage.data

import doap_tf
from doap_tf.metrics import retrieval_average_precisions
from doap_tf.patch_generation import GroupSettings, sample_groups


def assert_unchanged(name, value, expected, band):
    assert value == pytest.approx(expected, rel=band), (
        f"{name} was {expected:g} and is {value:g}. If detection, cutting, description or matching "
        "was to stay the same, this is a defect. If a new network ships or an algorithm was "
        "changed on purpose, compare both with benchmarks/match_pairs.py on image pairs, write the "
        f"result to docs/experiments/, and only then set {value:.4g} here."
    )


def test_right_matches_of_the_sample_pair():
    """The second image is turned by 90°, so that errors of position do not cancel."""
    left, right, disparity = skimage.data.stereo_motorcycle()
    width = right.shape[1]
    images = [image[..., ::-1] for image in (left, np.rot90(right))]
    pair = doap_tf.match_images(*images, "doap-fast-128", max_keypoints=2000, geometry=None)
    column, row = np.rint(pair.points1).astype(int).T
    truth = pair.points1 - np.stack([disparity[row, column], np.zeros(len(row))], axis=1)
    turned_back = np.stack([width - 1 - pair.points2[:, 1], pair.points2[:, 0]], axis=1)
    errors = np.linalg.norm(turned_back - truth, axis=1)  # infinite where the truth is unknown
    assert_unchanged("the number of right matches", np.sum(errors < 1), 690, 0.02)
    distance = pair.distances[errors < 2].mean()
    assert_unchanged("the mean distance of right matches", distance, 0.4578, 0.02)


def test_mean_average_precision_of_the_sample_groups():
    patches = sample_groups(GroupSettings(patch_size=32, max_groups=100))
    numbers = np.repeat(np.arange(len(patches)), patches.shape[1])
    for name, expected in {"doap-fast-128": 0.8899, "doap-tiny-256b": 0.8445}.items():
        descriptor = doap_tf.from_pretrained(name)
        descriptors = descriptor.describe(patches.reshape(-1, 32, 32))
        precisions = retrieval_average_precisions(descriptors, numbers, descriptor.norm)
        assert_unchanged(f"the mAP of {name}", precisions.mean(), expected, 0.01)
