import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
import sys
import types

import cv2
import numpy as np
import pytest
import skimage.data

import doap_tf
from doap_tf.catalogue import DEFAULT_FOR_PAIRS
from doap_tf.matching.image_features import unit_rows
from tests.reconstruction import make_scene, write_images, write_source

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
    counts = re.findall(r"([\w+-]+): (\d+) of (\d+) matches right", done.stdout)
    (_, right1, all1), (_, right2, all2) = counts
    assert [name for name, *_ in counts] == ["rootsift", DEFAULT_FOR_PAIRS]
    assert int(right2) > 5 * int(right1) > 500
    assert int(right2) / int(all2) > int(right1) / int(all1)
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


LOCALISE = """
import sys, types
import cv2, numpy as np
sys.path.insert(0, sys.argv[1])
import localise

localise.FLAGS(["localise", "--images=images", "--folder=out"])
whole = localise.read_model("sparse/0", "images")
left_out, *others = whole.images
turn, offset, scale = cv2.Rodrigues(np.array([0.3, -1, 2]))[0], np.array([5, -3, 2]), 7.0
moved = [
    image._replace(
        rotation=image.rotation @ turn.T,
        translation=scale * image.translation - image.rotation @ turn.T @ offset,
    )
    for image in others
]
model = whole._replace(images=moved, places=scale * whole.places @ turn.T + offset)
images = {image.name: image for image in whole.images}

class Store:
    def read_pair(self, name1, name2):
        points1, points2 = (images[name].points for name in (name1, name2))
        _, *rows = np.intersect1d(points1, points2, return_indices=True)
        rows[1][::5] = rows[1][0]  # one match in five is wrong
        return types.SimpleNamespace(indices=np.stack(rows, axis=1))

    def read_features(self, name):
        return types.SimpleNamespace(points=images[name].keypoints - 0.5)

pairs = {(left_out.name, image.name) for image in others[::2]}
pose = localise._localise(Store(), pairs, left_out.name, model)
print(*localise._errors(pose, left_out.name, model, localise._cameras(whole)))
few = model._replace(images=[image._replace(points=-1 + 0 * image.points) for image in moved])
print(localise._localise(Store(), pairs, left_out.name, few))
half = np.array([[1.0, 0.1, 20.0]] * 4 + [[np.inf, np.inf, 0.0]] * 5)
print(localise._row(half)["position, ‰"])
"""


def test_a_photograph_is_localised_in_a_moved_map(tmp_path):
    write_source(make_scene(noise=0.1), tmp_path)
    command = [sys.executable, "-c", LOCALISE, str(ROOT / "examples")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    errors, nothing, half_lost = done.stdout.splitlines()
    position, rotation = map(float, errors.split())
    assert 0 < position < 3 and 0 < rotation < 0.2
    assert nothing == "None" and half_lost == "inf (1.00–inf)"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_photographs_are_localised(tmp_path):
    write_images(make_scene(), tmp_path / "images")
    command = [sys.executable, str(ROOT / "examples/localise.py"), "--images=images"]
    command += ["--folder=out", "--left_out=3", "--models=dog_dense:rootsift,doap-dense-small-256b"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^\| (\S+) \| 7/7 \| ([\d.]+) \(.*?\) \| ([\d.]+) ", done.stdout, re.M)
    assert [name for name, *_ in rows] == ["dog_dense:rootsift", "doap-dense-small-256b"]
    assert all(float(position) < 10 and float(rotation) < 1 for _, position, rotation in rows)
    refused = subprocess.run(
        [*command, "--left_out=5"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 2 and "images holds 7 photographs" in refused.stderr
