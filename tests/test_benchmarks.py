"""Every benchmark runs at a tiny size and prints a ratio against each peer that is installed."""

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
from doap_tf.features import detect
from doap_tf.matching import DescriptorExtractor, as_grey
from tests import layouts
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


@pytest.mark.slow
def test_describing(run):
    output = run("describe_speed", counts=["40"])
    peers = is_installed("kornia")
    assert len(ratios(output, "doap-128, SavedModel", "HardNet")) == peers
    assert ("pip install" in output) != peers
    for peer in ("SIFT", "VGG", "TEBLID"):
        assert len(ratios(output, "doap-mobile-256b, LiteRT int8", peer)) == 1


@pytest.mark.slow
def test_accuracy_over_time(tmp_path):
    for size in (32, 65):
        views = np.stack([layouts.views(np.random.default_rng(n), 3, size) for n in range(20)])
        groups = PatchGroups.from_arrays(views.reshape(-1, size, size), np.repeat(np.arange(20), 3))
        groups.save(tmp_path / str(size))
    finished = subprocess.run(
        [
            *(sys.executable, str(FOLDER / "accuracy_over_time.py"), "--rounds=1"),
            *(f"--groups={tmp_path / '32'},{tmp_path / '65'}", "--models=doap-tiny-256b"),
            *("--keypoints=300", f"--output={tmp_path / 'plot.png'}"),
        ],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [line.split("|") for line in finished.stdout.splitlines() if "|" in line]
    rows = {line[1].strip(): line[2:5] for line in lines}
    for name in ("doap-tiny-256b", "doap-tiny-256b, int8", "sift", "orb", "teblid", "vgg"):
        assert float(rows[name][0]) > 0 and 0 < float(rows[name][2]) <= 1
    assert cv2.imread(str(tmp_path / "plot.png")) is not None


@pytest.mark.slow
def test_profile_of_litert():
    finished = subprocess.run(
        [
            *(sys.executable, FOLDER / "litert_profile.py", "--models=doap-tiny-256b"),
            *("--precisions=float32", "--batch_sizes=1", "--threads=1", "--batch_size=2"),
            "--rounds=1",
        ],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    whole, profile = finished.stdout.split("| doap-tiny-256b, ")[1:]
    assert whole.startswith("µs a patch | batches of 1")
    rows = [row.split("|")[1:] for row in profile.splitlines()[2:] if row]
    names, times = zip(*[(row[0].strip(), float(row[1])) for row in rows], strict=True)
    assert names[-2:] == ("rest", "the whole") and any("CONV_2D" in name for name in names)
    assert sum(times[:-1]) == pytest.approx(times[-1], abs=0.1 * len(times))


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


def mapped(points, homography):
    return cv2.perspectiveTransform(points[None], homography)[0]


def tables(output):
    """Row → column → text of every table, by what stands over its names."""
    found, heads = {}, []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if "repeated" in cells:
            heads = cells
        elif line.startswith("| ") and cells[0] != "---":
            row = dict(zip(heads[1:], cells[1:], strict=True))
            found.setdefault(heads[0], {})[cells[0]] = row
    return found


def test_pairs_of_images(tmp_path):
    written = write_image_sequences(tmp_path / "some", ["graf", "boat"], size=(150, 190))
    arguments = (
        *(f"--data={tmp_path}", "--pairs=some/graf/2,some/boat/3", "--by_pair"),
        *("--models=rootsift,pixels,orb:own", "--magnifications=6,4+9", "--tolerances=0.5,12"),
        *("--max_keypoints=80,0", f"--output={tmp_path / 'pairs.jsonl'}"),
    )
    finished = match_pairs(*arguments)
    assert finished.returncode == 0, finished.stderr
    printed = tables(finished.stdout)
    names = ["dog:rootsift", "dog:pixels at 6", "dog:pixels at 4+9", "orb:own"]
    assert list(printed) == [
        f"{pair}{number} keypoints"
        for number in ("80", "all")
        for pair in ("", "some/graf/2, ", "some/boat/3, ")
    ]
    assert all(list(table) == names for table in printed.values())

    extractor = DescriptorExtractor("pixels", magnification=(4, 9))
    for number in (80, None):
        title = f"{number or 'all'} keypoints"
        founds, rights, shares = [], [], []
        for folder, other, suffix in (("graf", 2, "ppm"), ("boat", 3, "pgm")):
            homography = written[folder][other - 2]
            paths = [tmp_path / "some" / folder / f"img{i}.{suffix}" for i in (1, other)]
            images = [cv2.imread(str(path)) for path in paths]
            frames = [detect(as_grey(image), "dog", number).frames for image in images]
            founds.append([found_again(*frames, homography, tolerance) for tolerance in (0.5, 12)])

            rows = [extractor.compute(*pair)[1] for pair in zip(images, frames, strict=True)]
            distances = cdist(*rows)
            best = distances.argmin(axis=1)
            mutual = np.flatnonzero(distances.argmin(axis=0)[best] == np.arange(len(best)))
            expected = mapped(frames[0][mutual, :, 2], homography)
            errors = np.linalg.norm(expected - frames[1][best[mutual], :, 2], axis=1)
            rights.append([np.sum(errors <= tolerance) for tolerance in (0.5, 12)])
            shares.append(np.array(rights[-1]) / len(errors))
            row = printed[f"some/{folder}/{other}, {title}"]["dog:pixels at 4+9"]
            assert [int(row[f"found, {t} px"].replace(",", "")) for t in (0.5, 12)] == founds[-1]
            assert [int(row[f"right, {t} px"]) for t in (0.5, 12)] == rights[-1]
        row = printed[title]["dog:pixels at 4+9"]
        for index, tolerance in enumerate((0.5, 12)):
            assert int(row[f"right, {tolerance} px"]) == np.sum(rights, axis=0)[index]
            share = float(row[f"share, {tolerance} px"])
            assert share == pytest.approx(np.mean(shares, axis=0)[index], abs=6e-4)
        assert ("detect" in row) == (number is None)  # measured at the largest number

    # What is in the file is not measured again.
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert len(lines) == 4 * 2 * 2
    errors = [
        np.inf if line["corner_error"] is None else line["corner_error"]
        for line in lines
        if (line["model"], line["keypoints"]) == ("orb:own", 0)
    ]
    row = printed["all keypoints"]["orb:own"]
    assert float(row["AUC 5 px"]) == pytest.approx(area_under_curve(errors, 5), abs=6e-4)
    assert int(row["H"]) == np.sum(np.array(errors) <= 5)
    lines[0]["right"][0] += 1000
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    again = match_pairs(*arguments)
    assert again.returncode == 0, again.stderr
    before, after = (
        int(tables(each)["80 keypoints"]["dog:rootsift"]["right, 0.5 px"].replace(",", ""))
        for each in (finished.stdout, again.stdout)
    )
    assert after == before + 1000
    assert len((tmp_path / "pairs.jsonl").read_text().splitlines()) == len(lines)


def test_retrieval(tmp_path):
    for number in range(6):
        picture = texture(np.random.default_rng(number), 300, 400)
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
    finished = subprocess.run(
        [
            *(sys.executable, FOLDER / "retrieval.py", f"--photos={tmp_path}", "--sizes=10"),
            *(f"--folder={tmp_path}", "--models=rootsift", "--detector=dog", "--clock=cpu"),
            *("--max_keypoints=60", "--neighbours=2,9", "--inliers=0"),
        ],
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [line.strip("|").split("|") for line in finished.stdout.splitlines() if "|" in line]
    heads, _, real, *_, made = [[cell.strip() for cell in line] for line in lines]
    real, made = (dict(zip(heads[1:], row[1:], strict=True)) for row in (real, made))
    assert real["overlapping"] == real["pairs at 9"] == "15" and made["pairs at 9"] == "45"
    assert real["recall at 9"] == made["recall at 9"] == "1.000"
    assert 0 < int(made["overlapping"]) <= 10 and float(made["recall at 2"]) > 0.3
    steps = ("describe", "codebook", "signature", "search", "match")
    total = sum(float(made[f"{step}, ms"]) for step in steps)
    assert float(made["whole, ms"]) == pytest.approx(total, abs=0.4)
    assert float(real["match, ms a pair"]) > 0
    assert float(made["match, ms a pair"]) * 4.5 == pytest.approx(float(made["match, ms"]), rel=0.1)


def area_under_curve(errors, limit):
    """By summing the share of errors below many thresholds."""
    thresholds = (np.arange(2_000) + 0.5) / 2_000 * limit
    return np.mean([np.mean(np.array(errors) <= threshold) for threshold in thresholds])


@pytest.fixture
def pair_scores(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("pair_scores")


def test_area_under_curve(pair_scores):
    assert pair_scores.area_under_curve([0, 0.5, 2, np.inf], 1) == pytest.approx(1.5 / 4)
    errors = [*np.random.default_rng(0).exponential(3, 40), np.inf]
    for limit in (1, 3, 5):
        expected = area_under_curve(errors, limit)
        assert pair_scores.area_under_curve(errors, limit) == pytest.approx(expected, abs=1e-3)


def test_corner_error(pair_scores):
    true = np.array([[1.2, 0.1, 5], [-0.2, 0.9, 3], [1e-4, 2e-4, 1]])
    corners = np.float64([(0, 0), (99, 0), (99, 79), (0, 79)])
    other = true @ np.array([[1, 0, 2], [0, 1, -1], [0, 0, 1]])
    expected = np.linalg.norm(
        mapped(corners + np.array([2, -1]), true) - mapped(corners, true), axis=1
    )
    assert pair_scores.corner_error(other, true, (100, 80)) == pytest.approx(expected.mean())
    assert pair_scores.corner_error(None, true, (100, 80)) == np.inf


def test_repeatability(pair_scores):
    rng = np.random.default_rng(1)
    homography = np.array([[1.1, 0.3, -20], [-0.2, 1.3, 10], [3e-4, -2e-4, 1]])
    size1, size2, tolerance = (120, 90), (100, 110), 3
    points1, points2 = rng.uniform(0, 89, (70, 2)), rng.uniform(0, 99, (60, 2))
    there, back = mapped(points1, homography), mapped(points2, np.linalg.inv(homography))
    distances = cdist(there, points2)
    repeated = [
        distances[i].min() <= tolerance
        for i, (x, y) in enumerate(there)
        if 0 <= x <= 99 and 0 <= y <= 109
    ]
    repeated += [
        distances[:, j].min() <= tolerance
        for j, (x, y) in enumerate(back)
        if 0 <= x <= 119 and 0 <= y <= 89
    ]
    assert 0 < sum(repeated) < len(repeated) < len(points1) + len(points2)
    arguments = (homography, size1, size2, tolerance)
    assert pair_scores.repeatability(points1, points2, *arguments) == np.mean(repeated)
    assert pair_scores.repeatability(points1[:0], points2, *arguments) == 0


def test_pairs_of_images_want_right_flags():
    cases = {
        "--tolerances": ["--tolerances=3,0"],
        "--magnifications": ["--magnifications=14,8+"],
        "--max_keypoints": ["--max_keypoints=-1"],
        "--pairs": ["--pairs=graf/1"],
        "--aliked": ["--pairs=graf/2", "--models=aliked:own"],
        "R2D2": ["--pairs=graf/2", "--models=r2d2:own", "--r2d2=."],
        "dog has no descriptor of its own": ["--pairs=graf/2", "--models=dog:own"],
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


def test_peer_cuts_patches(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    cut = importlib.import_module("peers")._cut_patches
    maps = torch.arange(2 * 5 * 7).reshape(2, 5, 7)
    patches = cut(maps, torch.tensor([[0, 4], [3, 2]]), 3)
    assert patches.shape == (2, 2, 3, 3)
    assert patches[1].tolist() == maps[:, 1:4, 2:5].tolist()
    assert patches[0, 0].tolist() == [[0, 21, 22], [0, 28, 29], [0, 0, 0]]
