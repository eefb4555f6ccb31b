import pathlib
import re
import subprocess
import sys

import cv2
import pytest
import skimage.data

from doap_tf.export import export_tflite

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "mobile_matching.py"
# Runs the example where only the phone's packages can be imported.
LAUNCH = """
import runpy, sys
for package in ("doap_tf", "tensorflow", "keras", "scipy", "skimage", "sklearn"):
    sys.modules[package] = None
script, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(script, run_name="__main__")
"""


def run_example(folder, *arguments):
    command = [sys.executable, "-c", LAUNCH, EXAMPLE, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["real", "binary_st"])
def test_matches_a_turned_photograph(networks, tmp_path, name):
    image = skimage.data.camera()
    center = (255.5, 255.5)
    turned = cv2.warpAffine(image, cv2.getRotationMatrix2D(center, 20, 0.9), (512, 512))
    cv2.imwrite(str(tmp_path / "a.png"), image)
    cv2.imwrite(str(tmp_path / "b.png"), turned)
    (model,) = export_tflite(networks[name], tmp_path, name, ["float32"])
    done = run_example(tmp_path, model, "a.png", "b.png", "matches.png")
    assert done.returncode == 0, done.stderr
    matches, agreeing = map(int, re.findall(r"\d+", done.stdout)[:2])
    assert agreeing > 100
    assert agreeing > 0.3 * matches
    assert cv2.imread(str(tmp_path / "matches.png")).shape == (512, 1024, 3)


def test_another_file_than_a_model_is_one_line(tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), skimage.data.camera())
    done = run_example(tmp_path, "a.png", "a.png", "a.png", "matches.png")
    assert (done.returncode, done.stderr) == (2, "error: a.png is not a .tflite file.\n")
