import cv2
import numpy as np

from doap_tf.appearance import PRESETS
from doap_tf.appearance.array_effects import change_appearance
from tests.features.pictures import photograph


class Chance(np.random.Generator):
    """Random numbers of which the draws that switch effects on are prescribed."""

    def __init__(self, seed, switches):
        super().__init__(np.random.PCG64(seed))
        self.switches = list(switches)

    def random(self):
        return 0.0 if self.switches.pop(0) else 1.0


def changed(image, seed, blur=False, noise=False, jpeg=False):
    return change_appearance(image, PRESETS["camera"], Chance(seed, (blur, noise, jpeg)))


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


def former_change(image, rng):
    """What views got before effects had settings; groups that were cut then are still in use."""

    def log_uniform(low, high):
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    if rng.random() < 0.4:
        image = cv2.GaussianBlur(image, (0, 0), log_uniform(0.5, 2.5))
    gamma, contrast = log_uniform(0.55, 1.8), log_uniform(0.4, 1.6)
    table = 255 * (np.arange(256) / 255) ** gamma
    pivot = 255 * (float(image.mean()) / 255) ** gamma
    mean = np.clip(pivot + rng.normal(0, 35), 25, 205)
    table = np.clip(np.rint((table - pivot) * contrast + mean), 0, 255).astype(np.uint8)
    image = cv2.LUT(image, table)
    if rng.random() < 0.5:
        noise = rng.standard_normal(image.shape, np.float32) * log_uniform(1, 12)
        image = np.clip(np.rint(image + noise), 0, 255).astype(np.uint8)
    if rng.random() < 0.5:
        quality = [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(15, 91))]
        image = cv2.imdecode(cv2.imencode(".jpg", image, quality)[1], cv2.IMREAD_GRAYSCALE)
    return image


def test_the_default_is_bit_for_bit_what_it_was():
    image = photograph("chelsea")
    views = []
    for seed in range(12):
        rng, former = np.random.default_rng(seed), np.random.default_rng(seed)
        views.append(change_appearance(image, PRESETS["camera"], rng))
        np.testing.assert_array_equal(views[-1], former_change(image, former))
        assert rng.random() == former.random()
    assert all((view != views[0]).any() for view in views[1:])


def test_other_effects_are_those_of_the_seed():
    image = photograph("chelsea")
    views = [
        change_appearance(image, PRESETS["strong"], np.random.default_rng(s)) for s in (2, 2, 3)
    ]
    assert views[0].shape == image.shape and views[0].dtype == np.uint8
    np.testing.assert_array_equal(views[0], views[1])
    assert (views[0] != views[2]).any()
