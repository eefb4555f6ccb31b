"""A made-up reconstruction: two textured walls that meet in a corner, seen by known cameras."""

import struct
from typing import NamedTuple

import cv2
import numpy as np

from tests.features.pictures import photograph

WIDTH, HEIGHT, FOCAL = 240, 200, 260.0
MATRIX = np.array([[FOCAL, 0, WIDTH / 2], [0, FOCAL, HEIGHT / 2], [0, 0, 1]])
#: COLMAP's camera: its number, name, size and parameters.
CAMERA = (1, "SIMPLE_PINHOLE", WIDTH, HEIGHT, (FOCAL, WIDTH / 2, HEIGHT / 2))
MODEL_NUMBERS = {"SIMPLE_PINHOLE": 0, "PINHOLE": 1, "SIMPLE_RADIAL": 2, "RADIAL": 3, "OPENCV": 4}
MODEL_NUMBERS |= {"OPENCV_FISHEYE": 5}

_SCALE = 50.0  # pixels of the texture per unit of length
_TILT = np.radians(25)  # of each wall


class View(NamedTuple):
    """An image with its pose, and keypoints [n, 2] (COLMAP's origin) with their points' ids [n]."""

    name: str
    image: np.ndarray
    vector: np.ndarray  # the rotation as an axis times an angle
    translation: np.ndarray
    keypoints: np.ndarray
    ids: np.ndarray


class Scene(NamedTuple):
    """Views, and points with identifiers [P] and places [P, 3]."""

    views: list[View]
    ids: np.ndarray
    places: np.ndarray


def make_scene(noise=0.3, seed=0):
    """Renders seven views; each sees the points that it shows, `noise` pixels off."""
    rng = np.random.default_rng(seed)
    texture = cv2.resize(
        photograph("motorcycle")[:400, :700], (350, 200), None, 0, 0, cv2.INTER_AREA
    )
    height, half = texture.shape[0], texture.shape[1] // 2
    down, left, right = np.array(
        [[0, 1, 0], [np.cos(_TILT), 0, np.sin(_TILT)], [np.cos(_TILT), 0, -np.sin(_TILT)]]
    )
    corner = np.array([0, -height / 2 / _SCALE, 0])
    # Maps of texture pixels (x, y, 1) of both walls to space.
    walls = [
        np.column_stack([left / _SCALE, down / _SCALE, corner - left * half / _SCALE]),
        np.column_stack([right / _SCALE, down / _SCALE, corner - right * half / _SCALE]),
    ]
    found = cv2.SIFT_create(contrastThreshold=0.02).detect(texture)
    pixels = np.unique([point.pt for point in found], axis=0)
    pixels = np.column_stack([pixels[rng.permutation(len(pixels))[:150]], np.ones(150)])
    places = np.where(pixels[:, :1] < half, pixels @ walls[0].T, pixels @ walls[1].T)
    ids = 10 * np.arange(1, 151)

    views = []
    for number, turn in enumerate(np.linspace(-0.35, 0.35, 7)):
        roll, pitch = (
            cv2.Rodrigues(np.array(v))[0]
            for v in ([0, 0, 0.25 * (-1) ** number], [0.05 * number, turn, 0])
        )
        rotation, translation = roll @ pitch, np.array([0.1, -0.1, 5 + 0.6 * (number % 3)])
        image = np.zeros((HEIGHT, WIDTH), np.uint8)
        for wall, columns in zip(walls, (slice(0, half), slice(half, None)), strict=True):
            shown = np.zeros_like(texture)
            shown[:, columns] = 255
            seen = MATRIX @ (rotation @ wall + np.outer(translation, [0, 0, 1]))
            seen = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]]) @ seen
            warped, mask = (
                cv2.warpPerspective(part, seen, (WIDTH, HEIGHT)) for part in (texture, shown)
            )
            image[mask > 127] = warped[mask > 127]
        seen = (places @ rotation.T + translation) @ MATRIX.T
        keypoints = seen[:, :2] / seen[:, 2:]
        inside = ((keypoints > 5) & (keypoints < [WIDTH - 5, HEIGHT - 5])).all(axis=1)
        keypoints = keypoints[inside] + rng.normal(0, noise, (inside.sum(), 2))
        views.append(
            View(
                f"{number}.jpg",
                image,
                cv2.Rodrigues(rotation)[0].ravel(),
                translation,
                np.append(keypoints, [[1.5, 2.5]], axis=0),
                np.append(ids[inside], -1),
            )
        )
    return Scene(views, ids, places)


def write_images(scene, folder):
    for view in scene.views:
        path = folder / view.name
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), view.image)


def write_model(scene, folder, suffix=".bin", camera=CAMERA):
    """Writes the files that COLMAP documents."""
    folder.mkdir(parents=True, exist_ok=True)
    write = _write_binary if suffix == ".bin" else _write_text
    write(scene, folder, camera)


def write_source(scene, folder, suffix=".bin"):
    write_images(scene, folder / "images")
    write_model(scene, folder / "sparse/0", suffix)
    return folder


def _pose(view):
    angle = np.linalg.norm(view.vector)
    sine = np.sin(angle / 2) / angle
    return [np.cos(angle / 2), *(view.vector * sine), *view.translation]


def _tracks(scene):
    for point, place in zip(scene.ids, scene.places, strict=True):
        yield (
            point,
            place,
            [
                (number, index)
                for number, view in enumerate(scene.views, 1)
                for index in np.flatnonzero(view.ids == point)
            ],
        )


def _write_binary(scene, folder, camera):
    number, model, width, height, parameters = camera
    data = struct.pack("<QiiQQ", 1, number, MODEL_NUMBERS[model], width, height)
    data += struct.pack(f"<{len(parameters)}d", *parameters)
    (folder / "cameras.bin").write_bytes(data)
    data = struct.pack("<Q", len(scene.views))
    for image, view in enumerate(scene.views, 1):
        data += struct.pack("<i7di", image, *_pose(view), number) + view.name.encode() + b"\0"
        data += struct.pack("<Q", len(view.ids))
        for place, point in zip(view.keypoints, view.ids, strict=True):
            data += struct.pack("<ddq", *place, point)
    (folder / "images.bin").write_bytes(data)
    data = struct.pack("<Q", len(scene.ids))
    for point, place, track in _tracks(scene):
        data += struct.pack("<Q3d3BdQ", point, *place, 1, 2, 3, 0.5, len(track))
        for observation in track:
            data += struct.pack("<ii", *observation)
    (folder / "points3D.bin").write_bytes(data)


def _write_text(scene, folder, camera):
    number, model, width, height, parameters = camera
    values = " ".join(map(str, parameters))
    line = f"{number} {model} {width} {height} {values}"
    lines = ["# Camera list with one line of data per camera:", line]
    (folder / "cameras.txt").write_text("\n".join(lines) + "\n")
    lines = ["# Image list with two lines of data per image:"]
    for image, view in enumerate(scene.views, 1):
        pose = " ".join(repr(float(value)) for value in _pose(view))
        lines.append(f"{image} {pose} {number} {view.name}")
        lines.append(
            " ".join(
                f"{float(x)!r} {float(y)!r} {point}"
                for (x, y), point in zip(view.keypoints, view.ids, strict=True)
            )
        )
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    lines = ["# 3D point list with one line of data per point:"]
    for point, place, track in _tracks(scene):
        values = " ".join(repr(float(value)) for value in place)
        lines.append(f"{point} {values} 1 2 3 0.5 " + " ".join(f"{i} {j}" for i, j in track))
    (folder / "points3D.txt").write_text("\n".join(lines) + "\n")
