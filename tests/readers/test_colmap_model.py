import shutil
import subprocess

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.readers.colmap_model import find_model, read_model
from tests import reconstruction

PARAMETERS = {
    "SIMPLE_PINHOLE": (300, 118, 97),
    "PINHOLE": (300, 310, 118, 97),
    "SIMPLE_RADIAL": (300, 118, 97, -0.1),
    "RADIAL": (300, 118, 97, -0.1, 0.04),
    "OPENCV": (300, 310, 118, 97, -0.1, 0.04, 0.01, -0.02),
}


@pytest.fixture(scope="module")
def scene():
    return reconstruction.make_scene()


@pytest.fixture
def source(scene, tmp_path):
    return reconstruction.write_source(scene, tmp_path / "source")


def assert_is(model, scene):
    np.testing.assert_array_equal(model.ids, scene.ids)
    np.testing.assert_allclose(model.places, scene.places)
    assert [image.name for image in model.images] == [view.name for view in scene.views]
    for image, view in zip(model.images, scene.views, strict=True):
        np.testing.assert_allclose(image.rotation, cv2.Rodrigues(view.vector)[0], atol=1e-12)
        np.testing.assert_allclose(image.translation, view.translation)
        np.testing.assert_allclose(image.keypoints, view.keypoints)
        np.testing.assert_array_equal(image.points, view.ids)
        np.testing.assert_allclose(
            image.rotation @ image.centre + image.translation, np.zeros(3), atol=1e-12
        )


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
def test_both_formats_are_read(scene, tmp_path, suffix):
    reconstruction.write_source(scene, tmp_path, suffix)
    model = read_model(*find_model(tmp_path))
    assert_is(model, scene)
    camera = model.cameras[1]
    assert (camera.width, camera.height) == (reconstruction.WIDTH, reconstruction.HEIGHT)
    assert camera.focal_length == reconstruction.FOCAL
    np.testing.assert_array_equal(camera.matrix, reconstruction.MATRIX)


@pytest.mark.skipif(not shutil.which("colmap"), reason="no colmap")
def test_what_colmap_writes_is_read(scene, source, tmp_path):
    (tmp_path / "text").mkdir()
    command = ["colmap", "model_converter", "--output_type", "TXT"]
    folders = ["--input_path", source / "sparse/0", "--output_path", tmp_path / "text"]
    subprocess.run([*command, *folders], check=True, capture_output=True)
    assert_is(read_model(tmp_path / "text", source / "images"), scene)


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
@pytest.mark.parametrize("name", PARAMETERS)
def test_points_are_projected_as_opencv_does(scene, source, tmp_path, name, suffix):
    values = PARAMETERS[name]
    reconstruction.write_model(scene, tmp_path, suffix, (1, name, 240, 200, values))
    model = read_model(tmp_path, source / "images")
    fx, fy = values[0], values[name in ("PINHOLE", "OPENCV")]
    distortion = np.zeros(4)
    rest = values[4 if name in ("PINHOLE", "OPENCV") else 3 :]
    distortion[: len(rest)] = rest
    matrix = np.array([[fx, 0, 118], [0, fy, 97], [0, 0, 1.0]])
    image = model.images[2]
    expected, _ = cv2.projectPoints(
        scene.places, scene.views[2].vector, image.translation, matrix, distortion
    )
    seen = scene.places @ image.rotation.T + image.translation
    np.testing.assert_allclose(model.cameras[1].project(seen), expected[:, 0], atol=1e-9)


def test_models_and_images_are_found(source):
    images = source / "images"
    model = source / "sparse/0"
    assert find_model(source) == (model, images)
    assert find_model(model) == (model, images)
    small = source / "sparse/1"
    shutil.copytree(model, small)
    (model / "images.bin").write_bytes((model / "images.bin").read_bytes() + b"more")
    assert find_model(source) == (model, images)
    (small / "images.bin").write_bytes((small / "images.bin").read_bytes() + b"even more")
    assert find_model(source) == (small, images)
    shutil.rmtree(small)
    for file in model.glob("*.bin"):
        file.rename(source / "sparse" / file.name)
    assert find_model(source) == (source / "sparse", images)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-5])


def lengthen(path):
    path.write_bytes(path.read_bytes() + b"\0")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("cameras.bin", truncate, r"cameras\.bin is damaged .* write the model again$"),
        ("images.bin", truncate, r"images\.bin is damaged"),
        ("points3D.bin", truncate, r"points3D\.bin is damaged"),
        ("points3D.bin", lengthen, r"points3D\.bin is damaged .*bytes expected"),
        ("images.bin", lambda path: path.write_bytes(b""), r"images\.bin is damaged"),
        ("images.bin", lambda path: path.write_bytes(b"\xff" * 99), r"images\.bin is damaged"),
        ("images.bin", lambda path: path.write_bytes(bytes(8)), r"has 0 images and 150 points"),
        ("points3D.bin", lambda path: path.unlink(), r"lacks some of cameras, images"),
    ],
)
def test_damaged_files_are_named(source, name, damage, message):
    damage(source / "sparse/0" / name)
    with pytest.raises(InputError, match=message):
        read_model(source / "sparse/0", source / "images")


@pytest.mark.parametrize("suffix", [".bin", ".txt"])
def test_other_camera_models_are_refused(scene, source, tmp_path, suffix):
    camera = (1, "OPENCV_FISHEYE", 240, 200, (300, 300, 118, 97, 0, 0, 0, 0))
    reconstruction.write_model(scene, tmp_path, suffix, camera)
    with pytest.raises(InputError, match=r"cameras\.\w+: camera model .* not supported, only SIM"):
        read_model(tmp_path, source / "images")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cameras.txt", "1 PINHOLE 240 200 1 2 3", "damaged .*3 parameters of a PINHOLE camera"),
        ("cameras.txt", "1 PINHOLE", r"cameras\.txt is damaged"),
        ("cameras.txt", "2 PINHOLE 240 200 1 2 3 4", "0.jpg has camera 1, which .* lacks"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 a.png\n1 2 10\n3", "damaged .*3 lines, two an image"),
        ("images.txt", "1 1 0 0 0 0 0 0 1 a.png\n1 2 7\n", "a.png has point 7, which .* lacks"),
        ("images.txt", "1 1 0 0 0 0 nan 0 1 a.png\n\n", "a.png has numbers that are not finite"),
        ("points3D.txt", "1 x y z", r"points3D\.txt is damaged"),
    ],
)
def test_bad_lines_are_named(scene, source, tmp_path, name, text, message):
    reconstruction.write_model(scene, tmp_path, ".txt")
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_model(tmp_path, source / "images")


def test_missing_images_are_named(source):
    for number in (1, 4):
        (source / f"images/{number}.jpg").unlink()
    with pytest.raises(InputError, match=r"lacks 2 of the model's 7 images: 1\.jpg, 4\.jpg; "):
        read_model(source / "sparse/0", source / "images")


def test_a_source_without_model_or_images_is_refused(source, tmp_path):
    with pytest.raises(InputError, match="nowhere is no folder"):
        find_model(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no model of COLMAP"):
        find_model(source / "images")
    shutil.rmtree(source / "images")
    with pytest.raises(InputError, match="no folder images in"):
        find_model(source)
