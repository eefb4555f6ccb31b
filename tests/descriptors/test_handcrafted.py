"""Classical descriptors on patches: OpenCV's values, a row for every patch, sensible matching."""

import subprocess
import sys

import cv2
import numpy as np
import pytest

from doap_tf.descriptors import HANDCRAFTED
from doap_tf.errors import InputError
from doap_tf.metrics import NORM_HAMMING, matching_average_precision
from doap_tf.zoo import load_descriptor
from tests import layouts

NAMES = pytest.mark.parametrize("name", list(HANDCRAFTED))


@pytest.fixture(scope="module")
def patches():
    """Forty places seen twice, uint8 [40, 2, 64, 64]."""
    rng = np.random.default_rng(0)
    return np.stack([layouts.views(rng, 2, 64) for _ in range(40)])


@NAMES
def test_matches_far_above_chance(name, patches):
    descriptor = load_descriptor(name)
    first, second = (descriptor.describe(patches[:, view]) for view in range(2))
    assert matching_average_precision(first, second, descriptor.norm) > 0.7


@NAMES
def test_a_row_for_every_patch(name, patches):
    descriptor = load_descriptor(name)
    flat = np.stack([np.zeros((64, 64)), np.full((64, 64), 255)]).astype(np.uint8)
    rows = descriptor.describe(np.concatenate([flat, patches[:3, 0]])[..., np.newaxis])
    binary = descriptor.norm == NORM_HAMMING
    assert rows.shape == (5, descriptor.dimension // 8 if binary else descriptor.dimension)
    assert rows.dtype == (np.uint8 if binary else np.float32)
    assert np.isfinite(rows).all()
    assert (rows[2:] == descriptor.describe(patches[:3, 0])).all()
    assert descriptor.describe(np.zeros((0, 32, 32), np.uint8)).shape == (0, rows.shape[1])


@NAMES
@pytest.mark.parametrize("side", [16, 33, 65])
def test_any_size(name, side):
    rng = np.random.default_rng(1)
    rows = load_descriptor(name).describe(
        np.stack([layouts.texture(rng, side, side) for _ in range(3)])
    )
    assert len(np.unique(rows, axis=0)) == 3


@NAMES
def test_more_patches_than_a_thread_takes_at_once(name, patches):
    many = np.tile(patches[:, 0], (7, 1, 1))
    rows = load_descriptor(name).describe(many).reshape(7, 40, -1)
    assert (rows == rows[0]).all()


def test_sift_is_opencvs_at_the_patchs_centre(patches):
    extractor = cv2.SIFT_create()
    keypoint = cv2.KeyPoint(31.5, 31.5, 64 / 5.303, 0)
    expected = [extractor.compute(patch, [keypoint])[1][0] for patch in patches[:5, 0]]
    assert (load_descriptor("sift").describe(patches[:5, 0]) == expected).all()


def test_rootsift_is_the_root_of_sift(patches):
    sift = load_descriptor("sift").describe(patches[:, 0]).astype(np.float64)
    expected = np.sqrt(sift / sift.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(
        load_descriptor("rootsift").describe(patches[:, 0]), expected, atol=1e-6
    )


def test_box_descriptors_see_the_whole_patch(patches):
    """Pixels at the border, where a wrong scale would not look, change some bits."""
    changed = patches[:, 0].copy()
    changed[:, :8] = 255 - changed[:, :8]
    for name in ("beblid", "teblid", "vgg", "orb", "sift"):
        descriptor = load_descriptor(name)
        difference = descriptor.describe(changed) != descriptor.describe(patches[:, 0])
        assert difference.any(axis=1).mean() > 0.9, name


def test_floats_are_grey_values(patches):
    exact = patches[:4, 0].astype(np.float32) + 0.2
    assert (
        load_descriptor("orb").describe(exact) == load_descriptor("orb").describe(patches[:4, 0])
    ).all()


@pytest.mark.parametrize(
    "shape", [(64,), (64, 32), (2, 64, 32), (2, 8, 8), (2, 64, 64, 3)], ids=lambda shape: str(shape)
)
def test_bad_patches_are_named(shape):
    with pytest.raises(InputError, match="patches must"):
        load_descriptor("sift").describe(np.zeros(shape, np.uint8))


def test_unknown_baseline_is_named():
    with pytest.raises(InputError, match=r"surf.*rootsift.*doap-128"):
        load_descriptor("surf")


def test_metrics_import_neither_opencv_nor_tensorflow():
    code = "import sys, doap_tf.metrics; print({'cv2', 'tensorflow', 'sklearn'} & set(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert output.stdout.strip() == "set()"
