"""Pairs with poses, on fabricated files in the published layouts."""

import itertools
import os
import pickle
import zipfile

import cv2
import h5py
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from doap_tf.errors import InputError
from doap_tf.readers.pose_pairs import MAX_ROTATION, read_pose_pairs

K = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])


def camera(number):
    """A camera that turns by 20 degrees for each number: rotation, centre."""
    turn = Rotation.from_euler("xyz", [3 * number, 20 * number, number], degrees=True)
    return turn.as_matrix(), np.array([2.0 * number, 0.1 * number, -0.5])


def relative(first, second):
    """The truth by way of a point: x2 = R x1 + t."""
    (rotation1, centre1), (rotation2, centre2) = camera(first), camera(second)
    rotation = rotation2 @ rotation1.T
    return rotation, rotation2 @ (centre1 - centre2)


def write_image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), np.zeros((48, 64), np.uint8))


def write_superglue(folder, name="scannet_test_pairs_with_gt.txt"):
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = relative(0, 1)
    images = [f"scans_test/scene0707_00/sens/frame-00{number}.color.jpg" for number in (15, 85)]
    for image in images:
        write_image(folder / image)
    numbers = " ".join(
        map(repr, [*K.ravel().tolist(), *K.ravel().tolist(), *pose.ravel().tolist()])
    )
    (folder / name).write_text(f"{images[0]} {images[1]} 0 3 {numbers}\n\n")
    return folder / name


def write_megadepth(folder):
    names = [f"Undistorted_SfM/0015/images/{number}.jpg" for number in range(3)]
    poses = []
    for number, name in enumerate(names):
        write_image(folder / name)
        rotation, centre = camera(number)
        poses.append(np.vstack([np.column_stack([rotation, -rotation @ centre]), [0, 0, 0, 1]]))
    objects = {
        "image_paths": [*names, None],
        "depth_paths": [None] * 4,
        "intrinsics": [K, K, K, None],
        "poses": [*poses, None],
        "pair_infos": [
            (np.array([0, 1]), 0.3, np.zeros((2, 4))),
            ((np.int64(2), 1), np.float64(0.2), []),
        ],
    }
    arrays = {}
    for key, values in objects.items():
        arrays[key] = np.empty(len(values), object)
        for row, value in enumerate(values):
            arrays[key][row] = value
    path = folder / "0015_0.1_0.3.npz"
    np.savez(path, **arrays)
    return path


def write_phototourism(folder):
    scene = folder / "sacre_coeur/set_100"
    for name in ("calibration", "new-vis-pairs"):
        (scene / name).mkdir(parents=True)
    for number in range(3):
        write_image(scene / f"images/1_2_{number}.jpg")
        rotation, centre = camera(number)
        with h5py.File(scene / f"calibration/calibration_1_2_{number}.h5", "w") as file:
            file["K"], file["R"], file["T"] = K, rotation, (-rotation @ centre)[np.newaxis]
    np.save(scene / "new-vis-pairs/keys-th-0.1.npy", np.array(["1_2_1-1_2_0", "1_2_1-1_2_2"]))
    return scene


def write_cameras(folder, count=6):
    for number in range(count):
        write_image(folder / f"{number:04d}.jpg")
        rotation, centre = camera(number)
        rows = [*K, [0, 0, 0], *rotation.T, centre]
        lines = [" ".join(map(repr, map(float, row))) + " " for row in rows] + ["640 480"]
        (folder / f"{number:04d}.jpg.camera").write_text("\n".join(lines))


def check(pair, first, second):
    rotation, translation = relative(first, second)
    np.testing.assert_allclose(pair.rotation, rotation, atol=1e-12)
    np.testing.assert_allclose(pair.translation, translation, atol=1e-12)
    np.testing.assert_array_equal(pair.image1.intrinsics, K)
    assert pair.image1.path.is_file() and pair.image2.path.is_file()


def test_superglues_lists(tmp_path):
    path = write_superglue(tmp_path)
    for given in (path, tmp_path):
        (pair,) = read_pose_pairs(given)
        check(pair, 0, 1)
        assert (pair.image1.turns, pair.image2.turns, pair.image1.size) == (0, 3, None)
    lines = path.read_text()
    for damaged, named in (
        (lines.replace(" 0 3 ", " 0 "), "line 1, must have 38 columns.*37 columns"),
        (lines.replace("510.0", "x"), "line 1, must have 38 columns.*'x'"),
        (lines.replace("500.0", "-1", 1), r"camera matrix of .*frame-0015"),
        (lines.replace("500.0", "nan", 1), r"camera matrix of .*frame-0015"),
        (lines.replace("frame-0085", "other"), "needs the image .*other"),
        (" ".join([*lines.split()[:22], *["2.5"] * 16]), "no rotation"),
    ):
        path.write_text(damaged)
        with pytest.raises(InputError, match=named):
            read_pose_pairs(tmp_path)


def test_loftrs_scene_information(tmp_path):
    path = write_megadepth(tmp_path)
    first, second = read_pose_pairs(tmp_path)
    check(first, 0, 1)
    check(second, 2, 1)
    whole = path.read_bytes()
    for damaged in (whole[:-200], b"", whole[:2000] + bytes(200) + whole[2200:]):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"0015_0\.1_0\.3\.npz is not scene information"):
            read_pose_pairs(path)


def test_scene_information_runs_no_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "made"),)

    path = tmp_path / "evil.npz"
    header = np.empty(1, object)
    np.save(tmp_path / "plain.npy", header, allow_pickle=True)
    start = (tmp_path / "plain.npy").read_bytes()[: -len(pickle.dumps(header, protocol=4))]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pair_infos.npy", start + pickle.dumps(Evil()))
    with pytest.raises(InputError, match="wants to run"):
        read_pose_pairs(path)
    assert not (tmp_path / "made").exists()


def test_phototourism(tmp_path):
    scene = write_phototourism(tmp_path)
    for given in (tmp_path, tmp_path / "sacre_coeur", scene):
        first, second = read_pose_pairs(given)
        check(first, 1, 0)
        check(second, 1, 2)
    calibration = scene / "calibration/calibration_1_2_2.h5"
    calibration.write_bytes(calibration.read_bytes()[:600])
    with pytest.raises(InputError, match=r"calibration_1_2_2\.h5 is missing or damaged"):
        read_pose_pairs(tmp_path)
    np.save(scene / "new-vis-pairs/keys-th-0.1.npy", np.array(["a"]))
    with pytest.raises(InputError, match=r"keys-th-0\.1\.npy is missing or damaged"):
        read_pose_pairs(tmp_path)


def test_cameras(tmp_path):
    write_cameras(tmp_path)
    pairs = read_pose_pairs(tmp_path)
    expected = [
        (first, second)
        for first, second in itertools.combinations(range(6), 2)
        if np.degrees(Rotation.from_matrix(relative(first, second)[0]).magnitude()) <= MAX_ROTATION
    ]
    assert 9 <= len(expected) < 15
    for pair, numbers in zip(pairs, expected, strict=True):
        check(pair, *numbers)
        assert pair.image1.size == (640, 480)
    (tmp_path / "0001.jpg.camera").write_text("1 2 3")
    with pytest.raises(InputError, match=r"0001\.jpg\.camera must have 26 numbers.*3 numbers"):
        read_pose_pairs(tmp_path)
    with pytest.raises(InputError, match="no pairs with poses"):
        read_pose_pairs(tmp_path / "absent")
