"""Every benchmark runs at a tiny size and prints a ratio against each peer that is installed."""

import importlib
import importlib.util
import multiprocessing.dummy
import pathlib
import re
import subprocess
import sys

import cv2
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from scipy.spatial.distance import cdist

from doap_tf.features import detect
from doap_tf.matching import DescriptorExtractor, as_grey
from tests.layouts import texture, write_image_sequences

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def run(monkeypatch, capsys):
    """Gives what a benchmark prints when it is called with flags."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    def run(name, **values):
        module = importlib.import_module(name)
        flags.FLAGS.mark_as_parsed()
        with flagsaver.flagsaver(rounds=1, **values):
            module.main([name])
        return capsys.readouterr().out

    return run


def ratios(output, ours, peer):
    """The numbers of a row under a peer's heading, one for every table that has both."""
    found, heads = [], []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[1:2] == ["ms"]:
            heads = cells
        elif cells[0] == ours and f"× as fast as {peer}" in heads:
            found.append(float(cells[heads.index(f"× as fast as {peer}")]))
    return found


def is_installed(package):
    return importlib.util.find_spec(package) is not None


def test_loss(run, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    # Threads instead of processes, of which each would import TensorFlow anew.
    monkeypatch.setattr("loss_speed.PROCESSES", multiprocessing.dummy)
    output = run("loss_speed", sizes=["32"])
    assert len(ratios(output, "ours", "dense")) == 1
    assert len(ratios(output, "ours, chunks of 512", "dense")) == 1
    peers = is_installed("pytorch_metric_learning")
    assert len(ratios(output, "ours", "FastAP")) == peers
    assert ("pip install" in output) != peers


def test_describing(run):
    output = run("describe_speed", counts=["40"])
    peers = is_installed("kornia")
    assert len(ratios(output, "doap-128, SavedModel", "HardNet")) == peers
    assert ("pip install" in output) != peers
    for peer in ("SIFT", "VGG", "TEBLID"):
        assert len(ratios(output, "doap-mobile-256b, LiteRT int8", peer)) == 1


def test_matching(run):
    output = run("match_speed", descriptors=50)
    assert len(ratios(output, "ours", "BFMatcher")) == 6


def test_cutting(run):
    output = run("cutting_speed", patches=50)
    assert len(ratios(output, "ours", "warpAffine")) == 4


def test_cutting_compares_equal_patches(run):
    run("cutting_speed", patches=1)
    from cutting_speed import MAGNIFICATION, loop_of_warps

    from doap_tf.features import cut_patches, similarity_frames

    image = texture(np.random.default_rng(0), 90, 120)
    frames = similarity_frames([40, 70.3], [30, 55.6], 1.2, [0.3, 4.0])
    ours = cut_patches(image, frames, 32, MAGNIFICATION)
    np.testing.assert_allclose(loop_of_warps(image, frames, 32), ours.astype(int), atol=2)


def test_dataset(run, tmp_path):
    for number in range(2):
        picture = texture(np.random.default_rng(number), 160, 160)
        assert cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    output = run("dataset_speed", photographs=str(tmp_path), photo_groups=4, list_size=32)
    assert len(ratios(output, "ours (photo_patches)", "generate_groups and np.save")) == 1
    assert len(ratios(output, "ours, from then on", "np.load")) == 1
    assert len(ratios(output, "ours", "tf.data")) == 1


def test_evaluation(run):
    output = run("evaluation_speed", sequences=2, positions=20, pairs=100)
    assert len(ratios(output, "ours", "plain")) == 3


# Pairs of images


def match_pairs(*arguments):
    """Runs the benchmark on its own, because others have flags of the same names."""
    return subprocess.run(
        [sys.executable, FOLDER / "match_pairs.py", *arguments], capture_output=True, text=True
    )


def mapped_frame(frame, homography):
    """Centre, radius and angle of a frame under a homography, by differences."""
    points = frame[:, 2] + 1e-4 * np.stack([0 * frame[:, 0], frame[:, 0], frame[:, 1]])
    centre, right, down = cv2.perspectiveTransform(points[None], homography)[0]
    linear = np.stack([right - centre, down - centre], axis=1) / 1e-4
    left, _, other = np.linalg.svd(linear)
    turn = left @ other
    return centre, np.sqrt(np.linalg.det(linear)), np.degrees(np.arctan2(turn[1, 0], turn[0, 0]))


def found_again(frames1, frames2, homography, tolerance):
    """Size of a largest matching, grown by one augmenting path after the other."""
    ones = [mapped_frame(frame, homography) for frame in frames1]
    others = [mapped_frame(frame, np.eye(3)) for frame in frames2]
    alike = [
        [
            place
            for place, (centre2, radius2, angle2) in enumerate(others)
            if np.hypot(*(centre - centre2)) <= tolerance
            and np.exp(-0.5) < radius / radius2 < np.exp(0.5)
            and np.cos(np.radians(angle - angle2)) > np.cos(np.radians(30))
        ]
        for centre, radius, angle in ones
    ]
    partner = {}

    def grow(start, tried):
        for place in set(alike[start]) - tried:
            tried.add(place)
            if place not in partner or grow(partner[place], tried):
                partner[place] = start
                return True
        return False

    return sum(grow(start, set()) for start in range(len(alike)))


def test_pairs_of_images(tmp_path):
    written = write_image_sequences(tmp_path, ["graf", "boat"], size=(200, 260))
    finished = match_pairs(
        *(f"--data={tmp_path}", "--pairs=graf/2,boat/3", "--models=rootsift,pixels"),
        *("--magnifications=6,4+9", "--tolerances=0.5,12"),
    )
    assert finished.returncode == 0, finished.stderr
    _, *lines = (re.split(r"\s{2,}", line) for line in finished.stdout.splitlines())
    assert [line[:2] for line in lines] == [
        [place, name]
        for place in ("graf 1–2", "boat 1–3", "mean")
        for name in ("found again", "rootsift", "pixels at 6", "pixels at 4+9")
    ]
    printed = [np.float64(re.findall(r"[\d.]+", " ".join(line[2:]))) for line in lines]

    extractor = DescriptorExtractor("pixels", magnification=(4, 9))
    founds, rights, shares = [], [], []
    for folder, number, suffix in (("graf", 2, "ppm"), ("boat", 3, "pgm")):
        homography = written[folder][number - 2]
        images = [cv2.imread(str(tmp_path / folder / f"img{i}.{suffix}")) for i in (1, number)]
        frames = [detect(as_grey(image)).frames for image in images]
        founds.append([found_again(*frames, homography, tolerance) for tolerance in (0.5, 12)])

        rows = [extractor.compute(*pair)[1] for pair in zip(images, frames, strict=True)]
        distances = cdist(*rows)
        best = distances.argmin(axis=1)
        mutual = np.flatnonzero(distances.argmin(axis=0)[best] == np.arange(len(best)))
        expected = cv2.perspectiveTransform(frames[0][mutual, :, 2][None], homography)[0]
        errors = np.linalg.norm(expected - frames[1][best[mutual], :, 2], axis=1)
        rights.append([np.sum(errors <= tolerance) for tolerance in (0.5, 12)])
        shares.append(np.array(rights[-1]) / len(errors))
        assert printed[len(rights) * 4 - 1][0] == len(errors)

    founds.append(np.sum(founds, axis=0))
    np.testing.assert_array_equal(printed[::4], founds)
    pooled = np.stack([printed[3][2:6], printed[7][2:6], printed[11]])
    np.testing.assert_array_equal(pooled[:, ::2], [*rights, np.sum(rights, axis=0)])
    np.testing.assert_allclose(pooled[:, 1::2], [*shares, np.mean(shares, axis=0)], atol=6e-4)


@pytest.mark.parametrize("flag", ["--tolerances=3,0", "--magnifications=14,8+"])
def test_pairs_of_images_want_numbers(flag, tmp_path):
    finished = match_pairs(f"--data={tmp_path}", flag)
    assert finished.returncode == 2
    (line,) = finished.stderr.splitlines()
    assert line.startswith("error: ") and flag.split("=")[0] in line
