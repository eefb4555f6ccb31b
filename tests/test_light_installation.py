"""A wheel in an environment without TensorFlow."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import cv2
import pytest

from doap_tf.zoo import list_pretrained
from tests.matching.scene import views

ROOT = pathlib.Path(__file__).parents[1]


def run(*command, **options):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    finished = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, **options
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_a_light_installation_matches_images(tmp_path):
    checkout = tmp_path / "checkout"
    for name in ("doap_tf", "datasets"):
        shutil.copytree(ROOT / name, checkout / name)
    for name in ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path, checkout)
    (wheel,) = tmp_path.glob("*.whl")
    packed = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".graph.tflite")]
    assert len(packed) == len(list_pretrained())

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--requirement", ROOT / "requirements-light.txt")
    run(python, "-m", "pip", "install", "--no-deps", wheel)
    installed = run(python, "-m", "pip", "list")
    assert "tensorflow" not in installed and "matplotlib" not in installed

    for number, image in enumerate(views(), 1):
        cv2.imwrite(str(tmp_path / f"{number}.png"), image)
    command = [python.parent / "doap-match", "--image1=1.png", "--image2=2.png"]
    for name in list_pretrained():
        printed = run(*command, f"--model={name}", "--max_keypoints=300", cwd=tmp_path)
        assert "inliers of this homography" in printed
