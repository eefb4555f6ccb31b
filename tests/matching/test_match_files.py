import csv
import json

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import DescriptorExtractor, match_images, write_matches
from tests.matching.scene import views


@pytest.fixture(scope="module")
def pair():
    return match_images(*views(), "rootsift", max_keypoints=300)


def test_json_holds_everything(pair, tmp_path):
    write_matches(tmp_path / "m.json", pair, {"descriptor": "rootsift"})
    record = json.loads((tmp_path / "m.json").read_text())
    keypoints = [keypoint.pt for keypoint in pair.features1.keypoints]
    np.testing.assert_allclose(np.array(record["keypoints1"])[:, :2], keypoints, atol=1e-4)
    np.testing.assert_array_equal(record["indices"], pair.indices)
    np.testing.assert_array_equal(record["inliers"], pair.inliers)
    np.testing.assert_allclose(record["model"], pair.model)
    assert record["settings"] == {"descriptor": "rootsift"} and record["geometry"] == "homography"
    assert record["reliable"] is True and record["confidence"] == pair.confidence > 0.5


def test_arrays_and_table_agree(pair, tmp_path):
    write_matches(tmp_path / "m.npz", pair)
    write_matches(tmp_path / "m.csv", pair)
    with np.load(tmp_path / "m.npz") as arrays, (tmp_path / "m.csv").open() as file:
        rows = list(csv.DictReader(file))
        assert len(rows) == len(arrays["indices"]) == len(pair.indices)
        for side in (1, 2):
            index = [int(row[f"index{side}"]) for row in rows]
            places = [[float(row[f"x{side}"]), float(row[f"y{side}"])] for row in rows]
            np.testing.assert_allclose(arrays[f"keypoints{side}"][index, :2], places)
        assert [row["inlier"] == "1" for row in rows] == arrays["inliers"].tolist()
        np.testing.assert_allclose(arrays["model"], pair.model)


def test_without_a_geometry_inliers_and_residuals_are_empty(tmp_path):
    pair = match_images(*views(), "rootsift", max_keypoints=90, geometry=None)
    for name in ("m.json", "m.npz", "m.csv"):
        write_matches(tmp_path / name, pair)
    record = json.loads((tmp_path / "m.json").read_text())
    unknown = ("inliers", "residuals", "geometry", "model", "reliable", "confidence")
    assert all(record[name] is None for name in unknown)
    with np.load(tmp_path / "m.npz") as arrays, (tmp_path / "m.csv").open() as file:
        assert not {"inliers", "residuals", "model"} & set(arrays)
        assert {(row["inlier"], row["residual"]) for row in csv.DictReader(file)} == {("", "")}


def test_a_pair_without_a_model_is_valid_json(tmp_path):
    blank = np.full([64, 64], 128, np.uint8)
    write_matches(tmp_path / "m.json", match_images(views()[0], blank, "rootsift"))
    record = json.loads((tmp_path / "m.json").read_text())
    assert record["model"] is None and record["indices"] == []


def test_other_suffixes_are_refused(pair, tmp_path):
    with pytest.raises(InputError, match=r"m\.txt"):
        write_matches(tmp_path / "m.txt", pair)


def test_the_whole_interface_of_feature2d():
    image = views()[0]
    extractor = DescriptorExtractor("rootsift", max_keypoints=50)
    keypoints = cv2.SIFT_create(40).detect(image)
    given, rows = extractor.detectAndCompute(image, None, keypoints, useProvidedKeypoints=True)
    assert given is keypoints
    np.testing.assert_array_equal(rows, extractor.compute(image, keypoints)[1])
    assert not extractor.empty() and extractor.getDefaultName() == "Feature2D.rootsift"
