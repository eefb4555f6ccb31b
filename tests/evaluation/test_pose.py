"""The benchmark of poses, on cameras and points whose truth is known."""

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import ImageModel, Pose
from doap_tf.evaluation.pose import THRESHOLDS, _unturned
from doap_tf.features.frames import similarity_frames
from doap_tf.matching import Features
from tests.readers.test_pose_pairs import K, camera, write_cameras

POINTS = np.random.default_rng(0).uniform([-30, -30, 15], [30, 30, 70], (600, 3))
ROWS = np.random.default_rng(1).standard_normal((600, 32)).astype(np.float32)


class KnownPoints:
    """An extractor that projects `POINTS` into the camera whose number the image's pixels say.

    Args:
        wrong: Share of the descriptors that are by chance.
    """

    name, norm = "known points", cv2.NORM_L2

    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def extract(self, image, mask=None):
        number, (height, width) = int(image.flat[0]), image.shape[:2]
        rotation, centre = camera(number)
        seen = (POINTS - centre) @ rotation.T
        points = (seen @ K.T)[:, :2] / seen[:, 2:]
        points = (points + 0.5) * [width / 640, height / 480] - 0.5
        kept = (seen[:, 2] > 1) & np.all((points > 0) & (points < [width, height]), axis=1)
        rng = np.random.default_rng(number)
        noise = rng.standard_normal(ROWS.shape).astype(np.float32)
        rows = np.where(rng.random((len(ROWS), 1)) < self.wrong, noise, ROWS)[kept]
        frames = similarity_frames(*points[kept].T, 2)
        responses = np.ones(len(rows), np.float32)
        return Features(frames, responses, rows, self.norm, (width, height))

    def settings(self):
        return {"wrong": self.wrong}


class Nothing(KnownPoints):
    def extract(self, image, mask=None):
        return super().extract(image).take(slice(0))


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Three cameras, their matrices for twice the size of the images."""
    folder = tmp_path_factory.mktemp("poses") / "castle"
    folder.mkdir()
    write_cameras(folder, 3)
    for number in range(3):
        image = np.full((240, 320), number, np.uint8)
        assert cv2.imwrite(str(folder / f"{number:04d}.jpg"), image)
    return folder


@pytest.mark.parametrize("size", [None, 200])
def test_right_matches_give_the_pose(scene, size):
    result = Pose([scene], max_image_size=size).evaluate(ImageModel("known", KnownPoints()))
    assert result.summary["precision"] > 0.9  # some points are in one image only
    assert result.summary["AUC 5°"] > 0.99
    assert len(result.further["pairs"]) == 3 and result.split == "castle"


def test_models_are_compared_and_get_thresholds(scene):
    benchmark = Pose([scene], validation=scene)
    worse = benchmark.evaluate(ImageModel("worse", KnownPoints(wrong=0.5)))
    assert 0.02 < worse.summary["precision"] < 0.8
    assert worse.measures["threshold [px]"] in THRESHOLDS
    assert set(worse.further["settings"]["validation"]) == {f"{each:g} px" for each in THRESHOLDS}
    pair = worse.further["pairs"]["castle: 0000 0001"]
    assert 0 < pair["distinct"] <= pair["right"] < pair["matches"]

    none = benchmark.evaluate(ImageModel("none", Nothing()))
    assert none.summary == {"AUC 5°": 0, "AUC 10°": 0, "AUC 20°": 0, "precision": 0}
    difference = none.details["Difference to worse"]
    assert difference["AUC 20°"] == pytest.approx(-worse.summary["AUC 20°"])
    assert difference["AUC 20° from"] <= difference["AUC 20°"] <= difference["AUC 20° to"]
    assert none.record()["pairs"]["castle: 0000 0001"]["errors"] == [None] * 5


def test_points_of_turned_images():
    image = np.zeros((5, 8))
    image[1, 6] = 1
    for turns in range(4):
        turned = np.rot90(image, turns)
        (row,), (column,) = np.nonzero(turned)
        points = _unturned(np.array([[column, row]]), turned.shape[::-1], turns)
        assert points.tolist() == [[6, 1]]


def test_bad_input(scene, tmp_path):
    with pytest.raises(InputError, match="either a threshold or a folder"):
        Pose([scene], threshold=1, validation=scene)
    write_cameras(tmp_path, 2)
    (tmp_path / "0001.jpg").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"0001\.jpg .*is not an image"):
        Pose([tmp_path]).evaluate(ImageModel("known", KnownPoints()))
