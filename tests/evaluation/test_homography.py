"""The benchmark of homographies, on fabricated image sequences."""

import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import Homography, load_image_models
from tests import layouts


@pytest.fixture(scope="module")
def sequences(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    layouts.write_image_sequences(folder, ("i_lamp", "v_tree"), "hpatches", (240, 320))
    return folder


@pytest.mark.parametrize("size", [None, 200])
def test_sift_finds_homographies(sequences, size):
    (model,) = load_image_models(["sift"], 500)
    result = Homography(sequences, max_image_size=size).evaluate(model)
    assert result.summary["AUC 5 px"] > 0.7
    assert result.split == "i_lamp,v_tree"
    assert set(result.scores) == {"all", "illumination", "viewpoint"}
    columns = result.details["Mean matching accuracy, all"]
    accuracies = list(columns.values())
    assert list(columns) == [f"{tolerance} px" for tolerance in range(1, 11)]
    assert accuracies == sorted(accuracies) and accuracies[2] > 0.5
    assert result.summary["accuracy 1–10 px"] == pytest.approx(np.mean(accuracies))
    kinds = [result.scores[kind]["AUC 3 px"] for kind in ("illumination", "viewpoint")]
    assert result.details["AUC 3 px"] == dict(
        zip(("illumination", "viewpoint"), kinds, strict=True)
    )
    assert result.measures["right at distinct places"] <= result.measures["matches"]
    assert result.measures["seconds an image"] > 0


def test_damaged_sequences(tmp_path):
    layouts.write_image_sequences(tmp_path, ("v_tree",), "hpatches")
    (model,) = load_image_models(["orb"], 100)
    (tmp_path / "v_tree/3.ppm").write_bytes(b"P6 damaged")
    with pytest.raises(InputError, match=r"3\.ppm .*is not an image"):
        Homography(tmp_path).evaluate(model)
    with pytest.raises(InputError, match="holds no sequence folders"):
        Homography(tmp_path / "v_tree")
