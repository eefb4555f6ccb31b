"""Image pairs with homographies: known answers for true, false and impossible ones."""

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import Model, Oxford
from doap_tf.zoo import load_descriptor
from tests import layouts

SIFT = Model("sift", load_descriptor("sift"))


def write_still_sequence(folder, homography):
    """Six times the same image, said to be related by `homography`."""
    folder.mkdir(parents=True)
    image = cv2.merge([layouts.texture(np.random.default_rng(3), 160, 200)] * 3)
    for number in range(1, 7):
        cv2.imwrite(str(folder / f"{number}.ppm"), image)
        if number > 1:
            np.savetxt(folder / f"H_1_{number}", homography)


@pytest.mark.parametrize("detector", ["dog", "harris_affine"])
def test_identical_images_match_perfectly(tmp_path, detector):
    write_still_sequence(tmp_path / "v_still", np.eye(3))
    result = Oxford(tmp_path, tmp_path / "cache", detectors=[detector]).evaluate(SIFT)
    expected = {f"1-{number}": 1.0 for number in range(2, 7)} | {"mean": 1.0}
    interval = {"low": 1.0, "high": 1.0}
    assert result.scores == {detector: {"v_still": expected, "mean": 1.0, "interval": interval}}
    assert result.summary == {f"mAP {detector}": 1.0}


def test_a_false_homography_makes_all_matches_wrong(tmp_path):
    shifted = np.array([[1.0, 0, 40], [0, 1, 0], [0, 0, 1]])
    write_still_sequence(tmp_path / "v_still", shifted)
    benchmark = Oxford(tmp_path / "v_still", tmp_path / "cache", detectors=["dog"])
    scores = benchmark.evaluate(SIFT).scores
    assert scores["dog"]["mean"] < 0.05


class Recorder:
    """SIFT that keeps the sums of the patches it is given."""

    norm, dimension = SIFT.descriptor.norm, SIFT.descriptor.dimension

    def __init__(self, **attributes):
        self.sums = []
        vars(self).update(attributes)

    def describe(self, patches, batch_size=1024):
        self.sums.append(int(patches.sum()))
        return SIFT.descriptor.describe(patches)


def test_magnification_is_the_papers_or_the_descriptors_own(tmp_path):
    write_still_sequence(tmp_path / "v_still", np.eye(3))

    def evaluated(name, descriptor, **chosen):
        benchmark = Oxford(tmp_path, tmp_path / name, detectors=["dog"], **chosen)
        return benchmark.evaluate(Model("m", descriptor)).protocol, descriptor.sums

    paper, at_3 = evaluated("paper", Recorder(magnification=5.0))
    own, at_own = evaluated("own", Recorder(magnification=5.0), magnification=None)
    chosen, at_5 = evaluated("chosen", Recorder(), magnification=5.0)
    without, at_default = evaluated("without", Recorder(), magnification=None)
    assert "patches at 3× (the paper's)" in paper and "5× (the descriptor's own)" in own
    assert "5× (chosen)" in chosen and "3× (the paper's; the descriptor has none" in without
    assert at_own == at_5 != at_3 == at_default
    with pytest.raises(InputError, match="magnification must be a number above 0, not nan"):
        Oxford(tmp_path, tmp_path, magnification=float("nan"))


def test_both_layouts_and_order_of_descriptors(tmp_path):
    layouts.write_image_sequences(tmp_path / "oxford", size=(180, 240))
    benchmark = Oxford(tmp_path / "oxford", tmp_path / "cache")
    sift = benchmark.evaluate(SIFT)
    assert set(sift.scores) == {"harris_affine", "dog"}
    assert set(sift.scores["dog"]) == {"boat", "graf", "mean", "interval"}
    interval = sift.scores["dog"]["interval"]
    assert interval["low"] < sift.scores["dog"]["mean"] < interval["high"]
    values = [v for d in sift.scores.values() for s in ("boat", "graf") for v in d[s].values()]
    assert all(0 <= value <= 1 for value in values)
    assert sift.scores["dog"]["mean"] > 0.2
    assert benchmark.evaluate(SIFT).scores == sift.scores
    assert [examples.patches.shape[:2] for examples in sift.plots.examples] == [(2, 12), (2, 12)]


def test_images_without_features_score_zero(tmp_path):
    write_still_sequence(tmp_path / "v_still", np.eye(3))
    for number in (2, 3):
        flat = np.full((160, 200, 3), 99, np.uint8)
        cv2.imwrite(str(tmp_path / "v_still" / f"{number}.ppm"), flat)
    benchmark = Oxford(tmp_path, tmp_path / "cache", detectors=["dog"])
    scores = benchmark.evaluate(SIFT).scores["dog"]["v_still"]
    assert (scores["1-2"], scores["1-3"], scores["1-4"]) == (0.0, 0.0, 1.0)


def test_missing_images_are_named(tmp_path):
    write_still_sequence(tmp_path / "v_still", np.eye(3))
    (tmp_path / "v_still" / "4.ppm").unlink()
    with pytest.raises(InputError, match=r"v_still lacks 4\.ppm"):
        Oxford(tmp_path, tmp_path / "cache").evaluate(SIFT)
    with pytest.raises(InputError, match="holds no sequence folders"):
        Oxford(tmp_path / "cache", tmp_path / "cache")
