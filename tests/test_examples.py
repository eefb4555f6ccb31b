import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import types

import cv2
import numpy as np
import pytest
import skimage.data

import doap_tf
from doap_tf.matching.image_features import unit_rows

ROOT = pathlib.Path(__file__).parents[1]


def test_comparison_with_sift(tmp_path):
    picture = tmp_path / "matches.jpg"
    done = subprocess.run(
        [sys.executable, "examples/compare_with_sift.py", f"--output={picture}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"([\w-]+): (\d+) of (\d+) matches right", done.stdout)
    (_, right1, all1), (_, right2, all2) = counts
    assert [name for name, *_ in counts] == ["rootsift", "doap-128"]
    assert int(right2) > int(right1) > 100
    assert int(right2) / int(all2) > int(right1) / int(all1) + 0.05
    assert cv2.imread(str(picture)).shape[1] > 1000


def test_the_sheet_of_changes_of_appearance(tmp_path):
    picture = tmp_path / "appearance.jpg"
    command = [sys.executable, "examples/draw_appearance.py", f"--output={picture}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        cv2.imread(str(picture)).shape
        == cv2.imread(str(ROOT / "docs/pictures/appearance.jpg")).shape
    )


def test_the_tour_is_stored_as_it_runs():
    """`make notebook` runs it; what is stored has every result and small pictures."""
    path = ROOT / "examples/tour.ipynb"
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {"execute_result", "stream"}
    assert sum("image/jpeg" in output.get("data", {}) for output in outputs) >= 4
    assert path.stat().st_size < 1_000_000


class StandInTensor(np.ndarray):
    """What the extractor for hloc needs of a tensor."""

    device = "cpu"

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)

    def to(self, device):
        assert device == "cpu"
        return self


class StandInModel:
    """hloc's base class, by what it documents: settings over defaults, `_init`, `_forward`."""

    def __init__(self, conf):
        self.conf = {**self.default_conf, **conf}
        self._init(self.conf)

    def __call__(self, data):
        return self._forward({name: data[name] for name in self.required_inputs})


@pytest.fixture
def hloc_extractor(monkeypatch):
    """The class in examples/hloc_extractor.py; hloc and PyTorch need not be installed."""
    if importlib.util.find_spec("torch") is None:
        torch = types.SimpleNamespace(from_numpy=lambda values: values.view(StandInTensor))
        monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("hloc", "hloc.utils", "hloc.utils.base_model"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["hloc.utils.base_model"].BaseModel = StandInModel
    spec = importlib.util.spec_from_file_location("doap", ROOT / "examples/hloc_extractor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Doap


@pytest.mark.parametrize("model", ["doap-dense-small-256b", "doap-fast-128"])
def test_hloc_gets_our_features(hloc_extractor, model):
    image = skimage.data.astronaut()[::2, ::2]
    tensor = sys.modules["torch"].from_numpy(
        np.ascontiguousarray(image.transpose(2, 0, 1)[np.newaxis], np.float32) / 255
    )
    found = hloc_extractor({"name": "doap", "model": model, "max_keypoints": 100})(
        {"image": tensor, "original_size": None}
    )
    ((points,), (scores,), (rows,), (scales,), (angles,)) = (
        [values.numpy() for values in found[name]]
        for name in ("keypoints", "scores", "descriptors", "scales", "oris")
    )
    expected = doap_tf.DescriptorExtractor(model, max_keypoints=100).extract(image[..., ::-1])
    np.testing.assert_array_equal(points, expected.points)
    np.testing.assert_array_equal(scores, expected.responses)
    np.testing.assert_array_equal(scales, expected.scales)
    np.testing.assert_array_equal(angles, np.degrees(expected.angles))
    assert points.dtype == np.float64  # hloc writes float32 in half precision
    np.testing.assert_array_equal(rows, unit_rows(expected.descriptors, expected.norm).T)
