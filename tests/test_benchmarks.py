"""Every benchmark runs at a tiny size and prints a ratio against each peer that is installed."""

import importlib
import importlib.util
import multiprocessing.dummy
import pathlib

import cv2
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

from tests.layouts import texture

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
