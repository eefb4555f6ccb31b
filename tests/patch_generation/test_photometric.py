import cv2
import numpy as np
import pytest

from doap_tf.patch_generation.photometric import augment_photometrically
from tests.features.pictures import photograph


class Chance(np.random.Generator):
    """Random numbers of which the draws that switch effects on are prescribed."""

    def __init__(self, seed, switches):
        super().__init__(np.random.PCG64(seed))
        self.switches = list(switches)

    def random(self):
        return 0.0 if self.switches.pop(0) else 1.0


def changed(image, seed, blur=False, noise=False, jpeg=False):
    return augment_photometrically(image, Chance(seed, (blur, noise, jpeg)))


def detail(image):
    return cv2.Laplacian(image, cv2.CV_32F)[8:-8, 8:-8].std()


def test_exposure_alone_is_a_rising_curve_of_grey_values():
    image = photograph("camera")
    slopes = []
    for seed in range(20):
        other = changed(image, seed)
        curve = [np.unique(other[image == value]) for value in np.unique(image)]
        assert all(len(values) == 1 for values in curve)
        assert (np.diff(np.concatenate(curve).astype(int)) >= 0).all()
        assert 20 <= other.mean() <= 215
        slopes.append(np.float64(other.std()) / image.std())
    assert min(slopes) < 0.7 and max(slopes) > 1.2


def test_blur_takes_detail_away_and_noise_adds_some():
    image = photograph("grass")
    ratios = [
        [
            detail(changed(image, seed, **{effect: True})) / detail(changed(image, seed))
            for seed in range(12)
        ]
        for effect in ("blur", "noise")
    ]
    assert np.median(ratios[0]) < 0.6
    assert np.median(ratios[1]) > 1.02


def test_jpeg_leaves_steps_between_its_blocks():
    image = cv2.GaussianBlur(photograph("camera"), (0, 0), 2)
    steps = np.abs(np.diff(changed(image, 3, jpeg=True).astype(int), axis=1)).mean(axis=0)
    at_blocks = steps[7::8].mean()
    assert at_blocks > 1.2 * np.delete(steps, np.s_[7::8]).mean()


@pytest.mark.parametrize("seed", range(5))
def test_the_same_seed_gives_the_same_light(seed):
    image = photograph("chelsea")
    first, again, other = (
        augment_photometrically(image, np.random.default_rng(s)) for s in (seed, seed, seed + 100)
    )
    assert first.shape == image.shape and first.dtype == np.uint8
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
