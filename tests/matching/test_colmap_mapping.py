"""The real COLMAP, by its command or as pycolmap, reconstructs what the database holds."""

import itertools
import json
import pathlib
import shutil
import subprocess
import sys

import cv2
import numpy as np
import PIL.Image
import pytest

from doap_tf.features import similarity_frames
from doap_tf.matching import Cameras, Features, MatchStore, Verifier, write_colmap
from doap_tf.matching.match_store import StoredMatches
from doap_tf.readers.colmap_model import read_model
from tests.reconstruction import FOCAL, HEIGHT, WIDTH, make_scene, write_images, write_source

BENCHMARK = pathlib.Path(__file__).parents[2] / "benchmarks/reconstruct.py"
SCENE = make_scene(noise=0.1)
INTRINSICS = np.array([[FOCAL, 0, WIDTH / 2 - 0.5], [0, FOCAL, HEIGHT / 2 - 0.5], [0, 0, 1]])


def write_database(folder, norm=cv2.NORM_L2, verified=True):
    """Writes what the scene's views see, matched by the points that are known."""
    write_images(SCENE, folder / "images")
    database = folder / "database.db"
    names = [view.name for view in SCENE.views]
    pairs = []
    with MatchStore(folder / "finished.db", {}) as store:
        for view in SCENE.views:
            count = len(view.ids)
            frames = similarity_frames(*(view.keypoints - 0.5).T, np.full(count, 2.0))
            rows = np.zeros((count, 128), np.float32)
            if norm == cv2.NORM_HAMMING:
                rows = np.zeros((count, 32), np.uint8)
            content = Features(frames, np.zeros(count, np.float32), rows, norm, (WIDTH, HEIGHT))
            store.write_features(view.name, "0", content)
        for first, second in itertools.combinations(SCENE.views, 2):
            _, *indices = np.intersect1d(first.ids[:-1], second.ids[:-1], return_indices=True)
            points1 = first.keypoints[indices[0]] - 0.5
            points2 = second.keypoints[indices[1]] - 0.5
            verifier = Verifier("fundamental", threshold=2.0)
            geometry, model, inliers, _, confidence = verifier.verify_points(points1, points2)
            scores = np.ones(len(inliers), np.float32)
            found = (model, geometry, confidence) if verified else (None, None, None)
            matches = StoredMatches(np.stack(indices, axis=1), scores, inliers, *found)
            store.write_pair(first.name, second.name, matches)
            pairs.append((first.name, second.name))
        cameras = Cameras(model="SIMPLE_PINHOLE", intrinsics=INTRINSICS)
        write_colmap(store, names, pairs, database, cameras)
    return database, pairs


def check_poses(centres):
    """Compares distances between cameras, {name: [3]}, with the scene's up to one scale."""
    true = {view.name: -cv2.Rodrigues(view.vector)[0].T @ view.translation for view in SCENE.views}
    assert centres.keys() == true.keys()
    found, wanted = (
        np.array([np.linalg.norm(of[a] - of[b]) for a, b in itertools.combinations(true, 2)])
        for of in (centres, true)
    )
    np.testing.assert_allclose(found / found.mean(), wanted / wanted.mean(), rtol=0.05)


@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
@pytest.mark.parametrize("norm", [cv2.NORM_L2, cv2.NORM_HAMMING], ids=["floats", "bits"])
def test_colmap_maps_the_database(tmp_path, norm):
    database, _ = write_database(tmp_path, norm)
    model = tmp_path / "sparse"
    model.mkdir()
    command = ["colmap", "mapper", "--database_path", database, "--output_path", model]
    command += ["--image_path", tmp_path / "images", "--Mapper.init_min_tri_angle", "4"]
    subprocess.run(command, check=True, capture_output=True)
    found = read_model(model / "0", tmp_path / "images")
    check_poses({image.name: image.centre for image in found.images})
    (camera,) = found.cameras.values()
    assert abs(camera.focal_length / FOCAL - 1) < 0.05
    assert len(found.ids) > 0.7 * len(SCENE.ids)


@pytest.mark.slow
@pytest.mark.parametrize("verified", [True, False], ids=["by doap_tf", "by COLMAP"])
def test_pycolmap_opens_verifies_and_maps_the_database(tmp_path, verified):
    pycolmap = pytest.importorskip("pycolmap")
    path, pairs = write_database(tmp_path, verified=verified)
    with pycolmap.Database.open(str(path)) as database:
        (camera,) = database.read_all_cameras()
        assert camera.model == pycolmap.CameraModelId.SIMPLE_PINHOLE
        np.testing.assert_allclose(camera.params, [FOCAL, WIDTH / 2, HEIGHT / 2])
        assert camera.has_prior_focal_length
        for view in SCENE.views:
            image = database.read_image_with_name(view.name)
            keypoints = database.read_keypoints(image.image_id)
            np.testing.assert_allclose(keypoints[:, :2], view.keypoints, atol=1e-3)
        assert database.num_matched_image_pairs() == len(pairs)
    if not verified:
        listed = tmp_path / "pairs.txt"
        listed.write_text("".join(f"{name1} {name2}\n" for name1, name2 in pairs))
        pycolmap.verify_matches(str(path), str(listed))
    with pycolmap.Database.open(str(path)) as database:
        assert database.num_verified_image_pairs() > len(pairs) / 2
    options = pycolmap.IncrementalPipelineOptions()
    options.mapper.init_min_tri_angle = 4
    models = pycolmap.incremental_mapping(
        str(path), str(tmp_path / "images"), str(tmp_path), options=options
    )
    best = max(models.values(), key=lambda model: model.num_reg_images())
    check_poses({image.name: image.projection_center() for image in best.images.values()})
    assert best.compute_mean_reprojection_error() < 0.5


def test_the_benchmark_scores_a_model(tmp_path):
    write_source(SCENE, tmp_path)
    script = f"""
import sys
sys.path.insert(0, {str(BENCHMARK.parent)!r})
import reconstruct
from doap_tf.readers.colmap_model import read_model
models = [read_model("sparse/0", "images")]
print(*reconstruct._scores(models, 9).values())
"""
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    images, points, observations, track, error, focal = finished.stdout.split()
    seen = sum((view.ids >= 0).sum() for view in SCENE.views)
    assert (images, points, observations) == ("7/9", str(len(SCENE.ids)), f"{seen:,}")
    assert track == f"{seen / len(SCENE.ids):.2f}" and focal == f"{FOCAL:.0f}"
    # The mean length of normal vectors with σ = 0.1.
    assert float(error) == pytest.approx(0.1 * np.sqrt(np.pi / 2), rel=0.1)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_the_benchmark_reconstructs(tmp_path):
    write_images(SCENE, tmp_path / "images")
    command = [sys.executable, str(BENCHMARK), "--images=images", "--models=sift", "--folder=out"]
    command += ["--mapper_options=--Mapper.init_max_forward_motion=1 --random_seed=1"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert "| sift | 7/7 | " in finished.stdout
    settings = json.loads((tmp_path / "out/sift/report.json").read_text())["settings"]
    assert (settings["detector"], settings["max_keypoints"]) == ("dog_dense", 20480)
    matching = settings["method"], settings["ratio"], settings["threshold"]
    assert matching == ("mutual_ratio", 0.9, 0.9)
    stopped = subprocess.run(
        [*command, "--mapper_options=--Mapper.init_min_num_inliers=99999"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert stopped.returncode == 0 and "| sift | 0/7 |" in stopped.stdout
    (tmp_path / "images/empty").mkdir()
    refused = subprocess.run(
        [*command, "--images=images/empty"], cwd=tmp_path, capture_output=True, text=True
    )
    assert refused.returncode == 2 and "images/empty holds 0 images" in refused.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_a_video_is_reconstructed(tmp_path):
    write_images(SCENE, tmp_path / "images")
    clip = cv2.VideoWriter(
        str(tmp_path / "walk.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 30, (WIDTH, HEIGHT)
    )
    for view in SCENE.views:
        clip.write(cv2.imread(str(tmp_path / "images" / view.name)))
    clip.release()
    main = BENCHMARK.parents[1] / "match_main.py"
    match = [sys.executable, main, "walk.avi", "--every=1", "--model=sift", "--overlap=2"]
    match += ["--format=colmap", "--output=out"]
    subprocess.run(match, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "sparse").mkdir()
    mapper = ["colmap", "mapper", "--database_path=out/database.db", "--image_path=out/frames"]
    mapper += ["--output_path=sparse", "--Mapper.init_max_forward_motion=1"]
    subprocess.run(mapper, cwd=tmp_path, check=True, capture_output=True)
    model = read_model(tmp_path / "sparse/0", tmp_path / "out/frames")
    assert len(model.images) == len(SCENE.views) and len(model.cameras) == 1


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_turned_photographs_are_reconstructed_and_undistorted(tmp_path):
    """What COLMAP writes last shows the points where the model projects them."""
    write_images(SCENE, tmp_path / "images")
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # the file is a quarter turn to the left of what is seen
    turned = PIL.Image.fromarray(np.rot90(SCENE.views[3].image).copy())
    turned.save(tmp_path / "images" / SCENE.views[3].name, exif=exif, quality=95)
    main = BENCHMARK.parents[1] / "match_main.py"
    match = [sys.executable, main, "images", "--model=sift", "--format=colmap", "--output=out"]
    paths = ["--image_path=images", "--output_path=sparse"]
    mapper = ["colmap", "mapper", "--database_path=out/database.db", *paths]
    undistorter = ["colmap", "image_undistorter", "--image_path=images", "--input_path=sparse/0"]
    (tmp_path / "sparse").mkdir()
    for command in (
        match,
        [*mapper, "--Mapper.init_max_forward_motion=1", "--Mapper.init_min_tri_angle=4"],
        [*undistorter, "--output_path=dense"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    model = read_model(tmp_path / "dense/sparse", tmp_path / "dense/images")
    assert len(model.images) == len(SCENE.views)
    shades = {}
    for image in model.images:
        camera = model.cameras[image.camera]
        pixels = cv2.imread(str(image.path), cv2.IMREAD_GRAYSCALE)
        assert pixels.shape == (camera.height, camera.width)
        places = model.places @ image.rotation.T + image.translation
        x, y = (camera.project(places) - 0.5).astype(np.float32).T
        smooth = cv2.GaussianBlur(pixels, (0, 0), 2)
        shades[image.name] = cv2.remap(smooth, x, y, cv2.INTER_LINEAR).ravel()
    assert turned.height > turned.width
    first, last = (shades[SCENE.views[number].name] for number in (3, 4))
    both = (first > 0) & (last > 0)
    assert both.sum() > 50 and np.corrcoef(first[both], last[both])[0, 1] > 0.9


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_the_benchmark_compares_speeds(tmp_path):
    write_images(SCENE, tmp_path / "images")
    command = [sys.executable, str(BENCHMARK.with_name("collection_speed.py")), "--images=images"]
    command += ["--models=sift", "--keypoints=50", "--rounds=1"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    keypoints = [
        float(line.split("|")[2]) for line in lines if line.startswith(("| sift", "| COLMAP"))
    ]
    assert len(keypoints) == 3 and keypoints[0] <= 50
    assert "| seconds | read | detect | describe | match | verify | write | draw |" in lines
