import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

import cv2
import h5py
import numpy as np
import pytest

from doap_tf.catalogue import DEFAULT_DETECTOR, ENTRIES
from doap_tf.matching import DescriptorExtractor
from doap_tf.matching.image_features import unit_rows
from doap_tf.zoo.tflite_files import tflite_file
from tests.matching.scene import views

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(folder, *arguments, program=(ROOT / "match_main.py",)):
    return subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    first, second = views()
    for name, image in (("a.png", first), ("b.png", second), ("c.png", first[:, 10:])):
        cv2.imwrite(str(folder / name), image)
    (folder / "broken.png").write_bytes(b"no picture")
    (folder / "foreign").mkdir()
    (folder / "foreign/database.db").touch()
    (folder / "nothing.txt").touch()
    return folder


def test_a_pair_is_matched_and_drawn(folder):
    finished = run(
        folder,
        *("--model=rootsift", "a.png", "b.png"),
        *("--output=out/matches.png", "--draw_frames=out/frames.png"),
    )
    assert finished.returncode == 0, finished.stderr
    assert "inliers of this homography" in finished.stdout
    assert "\nmatched (confidence" in finished.stdout
    assert cv2.imread(str(folder / "out/matches.png")).shape[1] > 1200
    assert cv2.imread(str(folder / "out/frames.png")) is not None
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["frames.png", "matches.png"]


_HEAVY = ("tensorflow", "keras", "matplotlib", "PIL", "h5py", "scipy", "skimage", "sklearn")
_LIGHT = f"""
import sys
sys.modules.update(dict.fromkeys({_HEAVY}))
from doap_tf.commands import match
match.run()
"""


@pytest.mark.parametrize("model", ["doap-mobile-256b", "doap-128"])
def test_matching_needs_no_tensorflow(folder, tmp_path, model):
    tflite_file(model)  # made by TensorFlow if it was not before
    arguments = ["--image1=a.png", "--image2=b.png", f"--model={model}", "--max_keypoints=300"]
    output = tmp_path / "matches.json"
    light = ["-c", _LIGHT]
    finished = run(folder, *arguments, f"--output={output}", program=light)
    assert finished.returncode == 0, finished.stderr
    assert "inliers of this homography" in finished.stdout and finished.stderr == ""
    settings = json.loads(output.read_text())["settings"]
    assert (settings["backend"], settings["precision"]) == ("litert", "float32")

    finished = run(folder, *arguments, f"--output={tmp_path}/matches.png", program=light)
    assert finished.returncode == 2
    assert re.fullmatch(r"error: this needs PIL.*, which is not installed: .*\n", finished.stderr)


def test_without_images_a_sample_is_matched(folder, tmp_path):
    finished = run(tmp_path, "--model=rootsift", "--max_keypoints=500", "--estimator=ransac")
    assert finished.returncode == 0, finished.stderr
    assert "no images given" in finished.stdout.splitlines()[0]
    assert "inliers of this fundamental" in finished.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["matches.png"]


def test_an_image_too_large_for_the_memory_is_named(folder):
    program = """
import cv2
from doap_tf import matching
from doap_tf.commands import match
def large(self, image):
    raise cv2.error("(-4:Insufficient memory) Failed to allocate 999 bytes")
matching.DescriptorExtractor.detect_frames = lambda self, image, mask: large(self, image)
match.run()
"""
    arguments = ["--image1=a.png", "--image2=b.png", "--model=sift"]
    finished = run(folder, *arguments, program=["-c", program])
    assert finished.returncode == 2
    assert re.fullmatch(r"error: a\.png: .*400 × 300 pixels.*\n", finished.stderr)


def test_names_that_hloc_cannot_read_are_refused_before_any_work(folder, tmp_path):
    for name in ("my a.png", "b.png"):
        (tmp_path / name).write_bytes((folder / name[-5:]).read_bytes())
    arguments = ["--images=*.png", "--model=sift", "--max_keypoints=50", "--output=out"]
    refused = run(tmp_path, *arguments)
    assert refused.returncode == 2 and "'my a.png'" in refused.stderr
    assert not (tmp_path / "out").exists()
    colmap = run(tmp_path, *arguments, "--format=colmap")
    assert colmap.returncode == 0, colmap.stderr
    with sqlite3.connect(tmp_path / "out/database.db") as database:
        assert database.execute("SELECT name FROM images").fetchall() == [("b.png",), ("my a.png",)]


def test_several_outputs_and_home(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    finished = run(
        folder,
        *("--image1=~/a.png", "--image2=b.png", "--model=rootsift", "--max_keypoints=100"),
        "--output=~/data/m.json,~/data/m.png",
    )
    assert finished.returncode == 0, finished.stderr
    assert {path.name for path in (folder / "data").iterdir()} == {"m.json", "m.png"}
    record = json.loads((folder / "data/m.json").read_text())
    assert record["settings"]["image2"] == "b.png" and len(record["keypoints1"]) == 100


def test_detector_geometry_and_intrinsics(folder):
    finished = run(
        folder,
        *("--image1=a.png", "--image2=b.png", "--model=rootsift", "--detector=hessian_affine"),
        *("--geometry=essential", "--threshold=2", "--intrinsics=500,500,199.5,149.5"),
    )
    assert finished.returncode == 0, finished.stderr
    assert "inliers of this essential" in finished.stdout
    few = run(
        folder,
        *("--image1=a.png", "--image2=b.png", "--model=sift", "--max_keypoints=20", "--nooriented"),
        *("--method=mutual_ratio", "--ratio=0.9", "--geometry=none"),
        f"--detector={ENTRIES['learned'].file('.tflite')}",
    )
    assert "a.png: 20 keypoints" in few.stdout and "inliers" not in few.stdout, few.stderr


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["a.png", "b.png"], "doap-dense-128+doap-fast-128"),
        (["a.png", "b.png", "--nooriented"], "doap-fast-128"),
        (["[ab].png", "--output=default"], "doap-fast-128"),
    ],
)
def test_the_default_network_is_that_of_pairs_or_of_patches(folder, arguments, name):
    finished = run(folder, *arguments, "--max_keypoints=100", "--json")
    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["settings"]["descriptor"] == name


def test_an_unrelated_pair_is_no_reliable_match_and_json_says_so_to_programs(folder, tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (75, 100), np.uint8)
    other = str(tmp_path / "noise.png")
    cv2.imwrite(other, cv2.resize(noise, (400, 300)))
    finished = run(folder, "a.png", other, "--model=sift", "--max_keypoints=200", "--json")
    assert finished.returncode == 0, finished.stderr
    result = json.loads(finished.stdout)
    assert result["reliable"] is False and result["confidence"] < 0.5
    assert result["images"] == {"a.png": 200, other: 200} and result["matches"] > 20
    assert "no reliable match (confidence" in finished.stderr


def test_sequential_and_listed_pairs(folder):
    (folder / "pairs.txt").write_text("a.png c.png\n")
    for wanted, *flags in ((3, "--pairs=sequential", "--overlap=1"), (1, "--pairs=pairs.txt")):
        finished = run(
            folder,
            *("--images=[abc].png", "--model=sift", "--max_keypoints=50"),
            *(*flags, f"--output=by_{wanted}"),
        )
        assert f"{wanted} of {wanted} pair" in finished.stdout, finished.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images="], "--images"),
        (["--image1=a.png"], "--image2"),
        (["z.png"], "z.png does not exist; a pair needs two"),
        (["a.png"], "a.png is one image; a pair needs two"),
        (["a.png", "b.png", "--model=learned"], "learned finds keypoints and describes none"),
        (["a.png", "b.png", "--images=*.png"], "with or without flags, not both: a.png b.png"),
        (["a.png", "b.png", "--model=doap128"], "Did you mean doap-128"),
        (["a.png", "b.png", "--detector=sift"], "harris_laplace.* SIFT's detector is dog"),
        (["a.png", "b.png", "--detector=learnt"], "Did you mean learned"),
        (["--image1=a.png", "--image2=b.png", "--images=*.png"], "--images"),
        (["--image1=a.png", "--image2=b.png", "--estimator=best"], "estimator.*magsac"),
        (["--images=*.png", "--output=x", "--format=csv"], "--format"),
        (["--images=*.png", "--output=x", "--camera=many"], "--camera.*auto"),
        (["--images=*.png", "--output=x", "--camera=single"], "--camera is for --format=colmap"),
        (["--images=*.png", "--output=x", "--overlap=2"], "--overlap is for --pairs=sequential"),
        (["--images=*.png", "--output=x", "--camera_model=EYE"], "--camera_model.*SIMPLE_RADIAL"),
        (
            ["--images=*.png", "--output=foreign", "--format=colmap"],
            "foreign/database.db.*output",
        ),
        (
            ["--images=*.png", "--output=foreign", "--format=h5"],
            "foreign/database.db.*output",
        ),
        (["--images=*.png", "--output=x", "--pairs=nothing.txt"], "nothing.txt names no pair"),
        (
            ["--images=*.png", "--output=x", "--pairs=retrievl"],
            "--pairs must be.*'retrievl'.*mean retrieval",
        ),
        (["--image1=a.png", "--image2=b.png", "--output=./b.png"], "b.png is one of the images"),
        (["--image1=a.png", "--image2=b.png", "--output=m.psd"], "m.psd is not the name of a"),
        (["--image1=a.png", "--image2=b.png", "--intrinsics=1,2"], "--intrinsics"),
        (["--image1=a.png", "--image2=broken.png", "--model=sift"], "broken.png"),
        (["--image1=a.png", "--image2=b.png", "--model=sift", "--output=plain"], "--output"),
        (["--images=*.png", "--model=sift", "--output=a.png"], "a.png"),
        (["--image1=a.png", "--image2=b.png", "--magnification=8,x"], "--magnification.*8,x"),
        (
            ["--image1=a.png", "--image2=b.png", "--model=pixels", "--magnification=8,0"],
            r"magnification.*\[8.0, 0.0\]",
        ),
        (
            ["--image1=a.png", "--image2=b.png", "--model=pixels", "--magnification="],
            "magnification",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(folder, arguments, message):
    finished = run(folder, *arguments)
    assert finished.returncode == 2
    (line,) = finished.stderr.splitlines()
    assert line.startswith("error: ") and re.search(message, line)


def test_many_images_are_matched_and_what_fails_is_skipped(folder):
    arguments = ["*.png", "--model=sift", "--max_keypoints=200", "--output=many"]
    first = run(folder, *arguments)
    assert first.returncode == 0, first.stderr
    assert "3 of 4 images, 3 of 6 pairs" in first.stdout
    assert "skipped broken.png: " in first.stderr and "Traceback" not in first.stderr
    with h5py.File(folder / "many/matches.h5") as file:
        matches = file["a.png/b.png/matches0"][()]
        inliers = int(file["a.png/b.png/inliers0"][()].sum())
    assert (matches >= 0).sum() > 60
    report = json.loads((folder / "many/report.json").read_text())
    assert set(report["images"]) == {"a.png", "b.png", "c.png"} and len(report["pairs"]) == 3
    assert list(report["failures"]) == ["broken.png"]
    assert report["settings"]["estimator"] == "magsac"
    page = (folder / "many/index.html").read_text("utf-8")
    for link in re.findall(r'href="([^"]+)"', page):
        assert (folder / "many" / link).is_file()
    assert page.count("<img ") == 3 and "a.png – b.png" in page
    for pair in report["pairs"]:
        assert pair["matches"] >= pair["inliers"] > 0 and np.shape(pair["model"]) == (3, 3)
        assert pair["reliable"] and pair["geometry"] == "homography"

    same = [
        f"--detector={DEFAULT_DETECTOR}",
        "--method=mutual",
        "--threshold=3",
    ]  # as by default for h5
    (folder / "many/matches.h5").unlink()
    second = run(folder, *arguments, *same, "--format=colmap,h5")
    assert second.returncode == 0, second.stderr
    assert second.stdout.startswith("for COLMAP by default --ratio=0.9: ")
    assert (folder / "many/matches.h5").exists()
    with sqlite3.connect(folder / "many/database.db") as database:
        rows = database.execute("SELECT rows FROM matches ORDER BY pair_id").fetchall()
        verified = database.execute(
            "SELECT rows, config, H FROM two_view_geometries ORDER BY pair_id"
        ).fetchall()
    assert len(rows) == 3 and rows[0][0] == (matches >= 0).sum()
    assert verified[0][:2] == (inliers, 6)
    assert np.frombuffer(verified[0][2]).shape == (9,)


@pytest.mark.parametrize(("flag", "wanted"), [("9", 9.0), ("4,9", [4.0, 9.0])])
def test_magnifications_are_one_or_several(folder, flag, wanted):
    finished = run(
        folder,
        *("--images=[ab].png", "--model=pixels", "--max_keypoints=50"),
        *(f"--magnification={flag}", f"--output=at_{flag}"),
    )
    assert finished.returncode == 0, finished.stderr
    report = json.loads((folder / f"at_{flag}/report.json").read_text())
    assert report["settings"]["magnification"] == wanted
    magnification = np.atleast_1d(wanted)
    expected = DescriptorExtractor("pixels", max_keypoints=50, magnification=magnification)
    rows = unit_rows(expected.extract(views()[0]).descriptors, cv2.NORM_L2)
    with h5py.File(folder / f"at_{flag}/features.h5") as file:
        np.testing.assert_allclose(file["a.png/descriptors"][()].T, rows, atol=2e-3)


# Does at the third image what the user or the system may do at any time.
STOPPED = """
import os, signal
from doap_tf import command_line, matching
from doap_tf.commands import match
describe, calls = matching.DescriptorExtractor.describe, []
def stopped(self, *arguments):
    calls.append(arguments)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.{signal})
    return describe(self, *arguments)
matching.DescriptorExtractor.describe = stopped
match.run()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_what_was_finished_before_a_stop_is_kept(folder, name):
    arguments = ["--images=[abc].png", "--model=sift", "--max_keypoints=50", f"--output={name}"]
    stopped = run(folder, *arguments, program=["-c", STOPPED.format(signal=name)])
    if name == "SIGTERM":
        assert stopped.returncode == 75 and "same command" in stopped.stderr
    else:
        assert stopped.returncode == -signal.SIGKILL
    with sqlite3.connect(folder / name / "finished.db") as database:
        names = database.execute("SELECT name FROM images ORDER BY name").fetchall()
    assert names == [("a.png",), ("b.png",)]


def test_a_video_is_matched_as_a_sequence_of_frames(tmp_path):
    image = np.tile(cv2.cvtColor(views()[0], cv2.COLOR_GRAY2BGR), (1, 2, 1))
    size = (320, 240)
    writer = cv2.VideoWriter(str(tmp_path / "a.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 30, size)
    for number in range(8):
        writer.write(np.ascontiguousarray(image[20:260, 15 * number : 15 * number + 320]))
    writer.release()
    flags = "--model=rootsift", "--detector=dog", "--format=colmap", "--output=out"
    finished = run(tmp_path, "a.avi", "--every=2", "--overlap=1", *flags)
    assert finished.returncode == 0, finished.stderr
    frames = sorted(path.name for path in (tmp_path / "out/frames").iterdir())
    assert len(frames) == 4
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert sorted(report["images"]) == frames and all(pair["reliable"] for pair in report["pairs"])
    pairs = {(pair["image1"], pair["image2"]) for pair in report["pairs"]}
    assert pairs == {(a, b) for a in frames for b in frames if a < b}  # closed by retrieval
    assert list(report["seconds"]) == [
        *("read", "detect", "describe", "shortlist", "match", "verify", "write", "draw")
    ]
    with sqlite3.connect(tmp_path / "out/database.db") as database:
        assert database.execute("SELECT COUNT(*) FROM cameras").fetchone() == (1,)
    for arguments, reason in (
        (("out/frames", "--every=2"), "--every is for a video only"),
        (("nothing.mp4",), "nothing.mp4 does not exist"),
    ):
        refused = run(tmp_path, *arguments, *flags)
        assert refused.returncode == 2 and reason in refused.stderr
