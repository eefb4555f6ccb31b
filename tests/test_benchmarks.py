"""Every benchmark runs at a tiny size and compares with each peer that is installed."""

import importlib
import importlib.util
import json
import multiprocessing.dummy
import pathlib
import subprocess
import sys

import cv2
import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver
from scipy.spatial.distance import cdist

from doap_tf.data import PatchGroups
from doap_tf.evaluation import peers
from doap_tf.evaluation.two_view_scores import distinct_places
from doap_tf.features import detect
from doap_tf.features.frames import similarity_frames, transform_frames
from doap_tf.matching import DescriptorExtractor
from doap_tf.readers.images import as_grey
from tests import layouts
from tests.dense import small_model
from tests.layouts import texture, write_image_sequences

FOLDER = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """Imports a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture
def run(load, monkeypatch, capsys):
    """Gives what a benchmark prints when it is called with flags."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")

    def run(name, **values):
        module = load(name)
        flags.FLAGS.mark_as_parsed()
        with flagsaver.flagsaver(rounds=1, **values):
            module.main([name])
        return capsys.readouterr().out

    return run


def run_apart(script, *arguments):
    """Runs a benchmark on its own, because others have flags of the same names."""
    command = [sys.executable, FOLDER / script, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def tables(output):
    """Row → column → text of every table, by the head of its first column."""
    found, heads = {}, None
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            heads = None
        elif heads is None:
            heads = cells
        elif not cells[0].startswith("---"):
            found.setdefault(heads[0], {})[cells[0]] = dict(zip(heads, cells, strict=True))
    return found


@pytest.mark.parametrize(
    ("name", "values", "peers"),
    [
        ("match_speed", {"descriptors": 50}, ["BFMatcher"]),
        ("cutting_speed", {"patches": 50}, ["warpAffine"]),
        ("evaluation_speed", {"sequences": 2, "positions": 20, "pairs": 100}, ["plain"]),
        pytest.param(
            "describe_speed", {"counts": ["40"]}, ["SIFT", "VGG", "TEBLID"], marks=pytest.mark.slow
        ),
    ],
)
def test_peers_are_compared(run, name, values, peers):
    output = run(name, **values)
    for peer in peers:
        assert f"× as fast as {peer}" in output


@pytest.mark.slow
def test_networks_of_whole_images(run, tmp_path):
    (tmp_path / "dense.tflite").write_bytes(small_model())
    models = [str(tmp_path), "rootsift"]
    output = run("dense_speed", models=models, width=160, height=120, keypoints=50, memory=0.1)
    assert "× as fast as SIFT" in output and "GB at 0.1 megapixels" in output


@pytest.mark.slow
def test_loss(run, load, monkeypatch):
    # Threads instead of processes, of which each would import TensorFlow anew.
    monkeypatch.setattr(load("loss_speed"), "PROCESSES", multiprocessing.dummy)
    output = run("loss_speed", sizes=["32"])
    installed = importlib.util.find_spec("pytorch_metric_learning") is not None
    assert "× as fast as dense" in output
    assert ("× as fast as FastAP" in output) == installed == ("pip install" not in output)


@pytest.mark.slow
def test_dataset(run, tmp_path):
    for number in range(2):
        cv2.imwrite(
            str(tmp_path / f"{number}.png"), texture(np.random.default_rng(number), 160, 160)
        )
    output = run("dataset_speed", photographs=str(tmp_path), photo_groups=4, list_size=32)
    for peer in ("generate_groups and np.save", "np.load", "tf.data"):
        assert f"× as fast as {peer}" in output


def test_cutting_compares_equal_patches(load):
    from doap_tf.features import cut_patches

    cutting = load("cutting_speed")
    image = texture(np.random.default_rng(0), 90, 120)
    frames = similarity_frames([40, 70.3], [30, 55.6], 1.2, [0.3, 4.0])
    ours = cut_patches(image, frames, 32, cutting.MAGNIFICATION)
    loop = cutting.loop_of_warps(image, frames, 32)
    np.testing.assert_allclose(loop, ours.astype(int), atol=2)


@pytest.mark.slow
def test_accuracy_over_time(tmp_path):
    for size in (32, 65):
        views = np.stack([layouts.views(np.random.default_rng(n), 3, size) for n in range(20)])
        groups = PatchGroups.from_arrays(views.reshape(-1, size, size), np.repeat(np.arange(20), 3))
        groups.save(tmp_path / str(size))
    output = run_apart(
        "accuracy_over_time.py",
        *("--rounds=1", "--models=doap-tiny-256b", "--keypoints=300"),
        *(f"--groups={tmp_path / '32'},{tmp_path / '65'}", f"--output={tmp_path / 'plot.png'}"),
    )
    for name in ("doap-tiny-256b", "doap-tiny-256b, int8", "sift", "orb", "teblid", "vgg"):
        assert f"| {name} |" in output
    assert cv2.imread(str(tmp_path / "plot.png")) is not None


@pytest.mark.slow
def test_profile_of_litert():
    output = run_apart(
        "litert_profile.py",
        *("--models=doap-tiny-256b", "--precisions=float32", "--batch_sizes=1", "--threads=1"),
        *("--batch_size=2", "--rounds=1"),
    )
    assert "CONV_2D" in output and "| the whole |" in output


@pytest.mark.slow
def test_retrieval(tmp_path):
    for number in range(6):
        picture = texture(np.random.default_rng(number), 300, 400)
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    output = run_apart(
        "retrieval.py",
        *(f"--photos={tmp_path}", "--sizes=10", f"--folder={tmp_path}", "--models=rootsift"),
        *("--detector=dog", "--max_keypoints=60", "--neighbours=2,9", "--inliers=0"),
    )
    rows = tables(output)["rootsift"]
    assert rows["6 images"]["pairs"] == "15" and rows["10 images"]["pairs"] == "45"
    assert rows["6 images"]["recall at 9"] == rows["10 images"]["recall at 9"] == "1.000"


def test_verdicts(tmp_path):
    # Every view is a cut of its scene's picture, 20 pixels further to the right than the last: a
    # plane, before which a camera moves.
    scenes = {
        **{f"photos/{name}": (2, 2) for name in ("urban100", "bsds500")},
        **{f"webcam/{name}": (2, 1) for name in "ab"},
        **{f"sfm/{name}": (1, 1) for name in "ab"},
        **{f"pose/{name}": (2, 1) for name in ("castle_p19", "entry_p10")},
        **{f"hpatches_images/v_{name}": (2, 1) for name in "ab"},
    }
    for seed, (name, (views, pictures)) in enumerate(scenes.items()):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        random = np.random.default_rng(seed)
        moved = 20 * (name[0] in "ph")
        for view in range(views):
            if view == 0 or pictures == 2:
                picture = texture(random, 160, 260)
            path = folder / f"{view + 1}.png"
            cv2.imwrite(str(path), picture[:, moved * view : moved * view + 200])
            camera = [100, 0, 99.5, 0, 100, 79.5, 0, 0, 1, *3 * [0], *np.eye(3).flat]
            numbers = [*camera, moved * view / 100, 0, 0, 200, 160]
            path.with_name(f"{path.name}.camera").write_text(" ".join(map(str, numbers)))
        (folder / "H_1_2").write_text(f"1 0 {-moved} 0 1 0 0 0 1")
    arguments = [
        *(f"--data={tmp_path}", "--models=dog:rootsift", f"--cache={tmp_path / 'cache'}"),
        *("--unrelated=2", "--max_keypoints=150"),
    ]
    output = run_apart("verdict.py", *arguments)
    row = tables(output)["model"]["dog:rootsift"]
    assert row["unrelated matched"].startswith("0 of 2:")
    assert row["true matched"].startswith("3 of 3: 100.0 %")
    assert row["homography: webcams"] == row["buildings"] == "1 of 1"
    records = [json.loads(line) for line in (tmp_path / "cache/dog-rootsift.jsonl").open()]
    assert len(records) == 10 and all(record["right"] <= record["matches"] for record in records)
    turned = tables(run_apart("verdict.py", *arguments, "--turned"))["model"]["dog:rootsift"]
    assert turned["upright"].startswith("0 of 4:") and " of 4:" in turned["at any angle"]


# Pairs of images


def mapped(points, homography):
    return cv2.perspectiveTransform(points[None], homography)[0]


def number(cell):
    """The figure of a cell, without its interval."""
    return float(cell.split(" (")[0].replace(",", ""))


@pytest.mark.slow
def test_pairs_of_images(tmp_path):
    written = write_image_sequences(tmp_path / "some", ["graf", "boat"], size=(150, 190))
    arguments = (
        *(f"--data={tmp_path}", "--pairs=some/graf/2,some/boat/3", "--tolerances=12"),
        *("--models=rootsift,pixels,orb:own", "--magnifications=6,4+9", "--max_keypoints=80"),
        *(f"--output={tmp_path / 'pairs.jsonl'}", "--baseline=dog:pixels at 6"),
    )
    shown = tables(run_apart("match_pairs.py", *arguments))
    rows, differences = shown["80 keypoints"], shown["80 keypoints, minus dog:pixels at 6"]
    assert list(rows) == [
        *("dog:rootsift at 6", "dog:rootsift at 4+9"),
        *("dog:pixels at 6", "dog:pixels at 4+9", "orb:own"),
    ]

    extractor = DescriptorExtractor("pixels", magnification=(4, 9))
    right, places, shares = [], 0, []
    for folder, other, suffix in (("graf", 2, "ppm"), ("boat", 3, "pgm")):
        paths = [tmp_path / "some" / folder / f"img{i}.{suffix}" for i in (1, other)]
        images = [cv2.imread(str(path)) for path in paths]
        frames = [detect(as_grey(image), "dog", 80).frames for image in images]
        distances = cdist(*map(lambda *pair: extractor.compute(*pair)[1], images, frames))
        best = distances.argmin(axis=1)
        mutual = np.flatnonzero(distances.argmin(axis=0)[best] == np.arange(len(best)))
        expected = mapped(frames[0][mutual, :, 2], written[folder][other - 2])
        errors = np.linalg.norm(expected - frames[1][best[mutual], :, 2], axis=1)
        right.append(np.sum(errors <= 12))
        places += distinct_places(frames[0][mutual[errors <= 12], :, 2])
        shares.append(np.mean(errors <= 12))
    row = rows["dog:pixels at 4+9"]
    assert row["right, 12 px"] == f"{sum(right)} ({2 * min(right)}–{2 * max(right)})"
    assert number(row["places, 12 px"]) == places < sum(right)
    assert number(row["share, 12 px"]) == pytest.approx(np.mean(shares), abs=6e-4)
    assert "dog:pixels at 6" not in differences
    assert number(differences["dog:pixels at 4+9"]["right, 12 px"]) == sum(right) - number(
        rows["dog:pixels at 6"]["right, 12 px"]
    )

    # What is in the file is not measured again.
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert all(line["git_revision"] for line in lines)
    lines[0]["right"][0] += 1000
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = tables(run_apart("match_pairs.py", *arguments))["80 keypoints"]
    before, after = (number(each["dog:rootsift at 6"]["right, 12 px"]) for each in (rows, again))
    assert after == before + 1000


def test_repeatability(load):
    repeatability = load("pair_scores").repeatability
    shift = np.array([[1.0, 0, 10], [0, 1, 0], [0, 0, 1]])
    points1 = np.array([[5.0, 5], [20, 5], [95, 5]])  # the last one leaves the image
    points2 = np.array([[16.0, 5], [60, 60], [2, 2]])  # the last one comes from outside
    assert repeatability(points1, points2, shift, (100, 80), (100, 80), 3) == 2 / 4
    assert repeatability(points1[:0], points2, shift, (100, 80), (100, 80), 3) == 0


def test_keypoints_are_found_again_one_to_one(load):
    found_again = load("pair_scores").found_again
    homography = np.array([[0, -1.5, 90], [1.5, 0, 4], [0, 0, 1]])  # a quarter turn, enlarged
    frames = similarity_frames([20, 30, 40], [20, 30, 40], 2, 0.3)
    there = transform_frames(frames, homography)
    assert found_again(frames, there, homography, 1) == 3
    assert found_again(frames, there[[0, 0]], homography, 1) == 1
    assert found_again(frames, similarity_frames(*there[:, :, 2].T, 2, 0.3), homography, 1) == 0


def test_pairs_of_images_want_right_flags():
    cases = {
        "--tolerances": ["--tolerances=3,0"],
        "--magnifications": ["--magnifications=14,8+"],
        "--max_keypoints": ["--max_keypoints=-1"],
        "--pairs": ["--pairs=graf/1"],
        "--aliked": ["--pairs=graf/2", "--models=aliked:own"],
        "R2D2": ["--pairs=graf/2", "--models=r2d2:own", "--r2d2=."],
        "dog has no descriptor of its own": ["--pairs=graf/2", "--models=dog:own"],
        "--baseline": ["--pairs=graf/2", "--models=sift", "--baseline=rootsift"],
    }
    # In one process: it takes seconds to start.
    script = f"""
import sys
sys.path.insert(0, {str(FOLDER)!r})
import match_pairs
from absl.testing import flagsaver
for flags in {list(cases.values())}:
    with flagsaver.flagsaver():
        match_pairs.FLAGS(["", "--data=.", *flags])
        try:
            match_pairs.main([])
        except match_pairs.InputError as error:
            print(error)
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    for message, named in zip(finished.stdout.splitlines(), cases, strict=True):
        assert named in message


def test_peer_cuts_patches():
    torch = pytest.importorskip("torch")
    maps = torch.arange(2 * 5 * 7).reshape(2, 5, 7)
    patches = peers._cut_patches(maps, torch.tensor([[0, 4], [3, 2]]), 3)
    assert patches.shape == (2, 2, 3, 3)
    assert patches[1].tolist() == maps[:, 1:4, 2:5].tolist()
    assert patches[0, 0].tolist() == [[0, 21, 22], [0, 28, 29], [0, 0, 0]]
