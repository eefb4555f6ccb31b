"""COLMAP's sparse models: cameras, images and 3D points, in binary or text files."""

import os
import pathlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from doap_tf.errors import InputError

_FILES = ("cameras", "images", "points3D")

#: The parameters of COLMAP's first camera models, in the order of its numbers.
CAMERA_MODELS = {
    "SIMPLE_PINHOLE": ("f", "cx", "cy"),
    "PINHOLE": ("fx", "fy", "cx", "cy"),
    "SIMPLE_RADIAL": ("f", "cx", "cy", "k1"),
    "RADIAL": ("f", "cx", "cy", "k1", "k2"),
    "OPENCV": ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2"),
}


class Camera(NamedTuple):
    """The intrinsic parameters of one or several images.

    Attributes:
        width, height: of the images, in pixels.
        matrix: float64 [3, 3]; as in COLMAP, the corner of the first pixel is the origin.
        distortion: float64 [4], OpenCV's k1, k2, p1, p2.
    """

    width: int
    height: int
    matrix: np.ndarray
    distortion: np.ndarray

    @property
    def focal_length(self) -> float:
        """The mean of both focal lengths, in pixels."""
        return (self.matrix[0, 0] + self.matrix[1, 1]) / 2

    def project(self, points: np.ndarray) -> np.ndarray:
        """Projects points [..., 3] of the camera's coordinates, z > 0, to pixels [..., 2]."""
        x, y = np.moveaxis(points[..., :2] / points[..., 2:], -1, 0)
        k1, k2, p1, p2 = self.distortion
        square = x * x + y * y
        radial = 1 + square * (k1 + k2 * square)
        bent = np.stack(
            [
                x * radial + 2 * p1 * x * y + p2 * (square + 2 * x * x),
                y * radial + 2 * p2 * x * y + p1 * (square + 2 * y * y),
            ],
            axis=-1,
        )
        return bent * self.matrix[[0, 1], [0, 1]] + self.matrix[:2, 2]


class Image(NamedTuple):
    """A registered image; X of the world has the camera's coordinates rotation · X + translation.

    Attributes:
        name: the file's path in the folder of images.
        path: the file.
        camera: number of its camera.
        rotation: float64 [3, 3].
        translation: float64 [3].
        keypoints: float64 [n, 2], pixels with the corner of the first one as the origin.
        points: int64 [n], the identifier of each keypoint's 3D point, −1 for none.
    """

    name: str
    path: pathlib.Path
    camera: int
    rotation: np.ndarray
    translation: np.ndarray
    keypoints: np.ndarray
    points: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        """The camera's place in the world, float64 [3]."""
        return -self.rotation.T @ self.translation


class Model(NamedTuple):
    """A reconstruction.

    Attributes:
        cameras: by number.
        images: sorted by name.
        ids: int64 [P], the 3D points' identifiers, ascending.
        places: float64 [P, 3].
    """

    cameras: dict[int, Camera]
    images: list[Image]
    ids: np.ndarray
    places: np.ndarray


def find_model(source: str | os.PathLike) -> tuple[pathlib.Path, pathlib.Path]:
    """Returns the folder of the model and that of the images.

    Args:
        source: a folder with `images` and `sparse`, as COLMAP writes them, or a model's own folder
            with `images` in it or up to two levels above. Of several models in `sparse` the one
            with the largest file of images is taken.
    """
    source = pathlib.Path(source)
    if not source.is_dir():
        raise InputError(f"{source} is no folder; give one that holds images/ and sparse/0/")
    models = [path for path in (source, source / "sparse") if _model_files(path)]
    models = models or sorted(filter(_model_files, source.glob("sparse/*")), key=_size_of_images)
    if not models:
        raise InputError(
            f"{source} holds no model of COLMAP; cameras, images and points3D, .bin or .txt, must "
            "be in it, in its sparse/ or in sparse/0/"
        )
    model = models[-1]
    above = model.resolve()
    for folder in (source, above, above.parent, above.parent.parent):
        if (folder / "images").is_dir():
            return model, folder / "images"
    raise InputError(
        f"there is no folder images in {source} or above it; put or link the images of the model "
        f"there, as {source / 'images'}"
    )


def model_files(folder: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the three files of a model: the binary ones, or else those of text."""
    files = _model_files(pathlib.Path(folder))
    if not files:
        raise InputError(
            f"{folder} lacks some of cameras, images and points3D, .bin or .txt; give a folder "
            "that COLMAP wrote a model to"
        )
    return files


def read_model(folder: str | os.PathLike, images_folder: str | os.PathLike) -> Model:
    """Reads a model, and checks that its parts agree and that the files of its images exist."""
    files = model_files(folder)
    readers = _BINARY if files[0].suffix == ".bin" else _TEXT
    cameras, images, points = (
        _read(path, reader) for path, reader in zip(files, readers, strict=True)
    )
    if not images or not points:
        raise InputError(
            f"the model in {folder} has {len(images)} images and {len(points)} points; "
            "reconstruct it again"
        )
    points.sort()
    ids = np.array([point[0] for point in points], np.int64)
    places = np.array([point[1:] for point in points], np.float64)
    for image in images:
        numbers = [image.rotation, image.translation, image.keypoints]
        if not all(np.isfinite(values).all() for values in numbers):
            raise InputError(f"{files[1]}: {image.name} has numbers that are not finite")
        unknown = np.setdiff1d(image.points[image.points >= 0], ids)
        lacking = f"point {unknown[0]}" if len(unknown) else f"camera {image.camera}"
        if len(unknown) or image.camera not in cameras:
            raise InputError(
                f"{files[1]}: {image.name} has {lacking}, which {folder} lacks; the files are not "
                "of one model"
            )
    if not np.isfinite(places).all():
        raise InputError(f"{files[2]} has points that are not finite")
    images_folder = pathlib.Path(images_folder)
    images = [image._replace(path=images_folder / image.name) for image in images]
    missing = sorted(image.name for image in images if not image.path.is_file())
    if missing:
        named = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        raise InputError(
            f"{images_folder} lacks {len(missing)} of the model's {len(images)} images: {named}; "
            "put them there under these names"
        )
    return Model(cameras, sorted(images, key=lambda image: image.name), ids, places)


def _model_files(folder: pathlib.Path) -> list[pathlib.Path]:
    for suffix in (".bin", ".txt"):
        files = [folder / (name + suffix) for name in _FILES]
        if all(path.is_file() for path in files):
            return files
    return []


def _size_of_images(folder: pathlib.Path) -> int:
    return _model_files(folder)[1].stat().st_size


def _read(path: pathlib.Path, reader: Callable[[pathlib.Path], Any]) -> Any:
    try:
        return reader(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (struct.error, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} is damaged or not a file of COLMAP ({error}); write the model again"
        ) from error


def _camera(model: str, width: int, height: int, parameters: list[float]) -> Camera:
    if model not in CAMERA_MODELS:
        raise _unsupported(model)
    if len(parameters) != len(CAMERA_MODELS[model]):
        raise ValueError(f"{len(parameters)} parameters of a {model} camera")
    named = dict(zip(CAMERA_MODELS[model], parameters, strict=True))
    fx, fy = named.get("fx", named.get("f")), named.get("fy", named.get("f"))
    matrix = np.array([[fx, 0, named["cx"]], [0, fy, named["cy"]], [0, 0, 1]], np.float64)
    distortion = np.array([named.get(name, 0) for name in ("k1", "k2", "p1", "p2")], np.float64)
    return Camera(width, height, matrix, distortion)


def _unsupported(model: str) -> InputError:
    return InputError(
        f"camera model {model} is not supported, only {', '.join(CAMERA_MODELS)}; undistort the "
        "images with colmap image_undistorter"
    )


def _image(
    name: str, camera: int, pose: list[float], keypoints: np.ndarray, points: np.ndarray
) -> Image:
    from scipy.spatial.transform import Rotation  # only now: cameras alone do not need it

    w, x, y, z, *translation = pose
    rotation = Rotation.from_quat([x, y, z, w]).as_matrix()
    path = pathlib.Path(name)  # until the folder is known
    return Image(name, path, camera, rotation, np.array(translation), keypoints, points)


class _Bytes:
    """A binary file, read from its beginning to its end."""

    def __init__(self, path: pathlib.Path):
        self._data = path.read_bytes()
        self._position = 0

    def records(self) -> Iterator["_Bytes"]:
        """Yields itself for every record that the file counts; checks that nothing follows them."""
        for _ in range(*self.numbers("Q")):
            yield self
        if self._position != len(self._data):
            raise ValueError(f"{self._position} bytes expected, {len(self._data)} found")

    def numbers(self, layout: str) -> tuple:
        values = struct.unpack_from("<" + layout, self._data, self._position)
        self.skip(struct.calcsize("<" + layout))
        return values

    def array(self, dtype: np.dtype, count: int) -> np.ndarray:
        values = np.frombuffer(self._data, dtype, count, self._position)
        self.skip(values.nbytes)
        return values

    def text(self) -> str:
        end = self._data.index(b"\0", self._position)
        text = self._data[self._position : end].decode()
        self._position = end + 1
        return text

    def skip(self, count: int) -> None:
        self._position += count


_KEYPOINT = np.dtype([("position", "<f8", 2), ("point", "<i8")])


def _binary_cameras(path: pathlib.Path) -> dict[int, Camera]:
    cameras = {}
    for data in _Bytes(path).records():
        number, model, width, height = data.numbers("iiQQ")
        if not 0 <= model < len(CAMERA_MODELS):
            raise _unsupported(f"number {model}")
        name, names = list(CAMERA_MODELS.items())[model]
        cameras[number] = _camera(name, width, height, list(data.numbers(f"{len(names)}d")))
    return cameras


def _binary_images(path: pathlib.Path) -> list[Image]:
    images = []
    for data in _Bytes(path).records():
        _, *pose, camera = data.numbers("i7di")
        name = data.text()
        keypoints = data.array(_KEYPOINT, *data.numbers("Q"))
        images.append(_image(name, camera, pose, keypoints["position"], keypoints["point"]))
    return images


def _binary_points(path: pathlib.Path) -> list[tuple]:
    points = []
    for data in _Bytes(path).records():
        number, x, y, z, _, _, _, _, track = data.numbers("Q3d3BdQ")  # then colours, mean error
        points.append((number, x, y, z))
        data.skip(8 * track)
    return points


def _lines(path: pathlib.Path) -> list[str]:
    return [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]


def _text_cameras(path: pathlib.Path) -> dict[int, Camera]:
    cameras = {}
    for line in filter(str.strip, _lines(path)):
        number, model, width, height, *parameters = line.split()
        cameras[int(number)] = _camera(model, int(width), int(height), list(map(float, parameters)))
    return cameras


def _text_images(path: pathlib.Path) -> list[Image]:
    # Two lines an image; the second one, of keypoints, may be empty.
    lines = _lines(path)
    while lines and not lines[-1].strip() and len(lines) % 2:
        lines.pop()
    if len(lines) % 2:
        raise ValueError(f"{len(lines)} lines, two an image expected")
    images = []
    for line, row in zip(lines[::2], lines[1::2], strict=True):
        _, *numbers, camera, name = line.split(maxsplit=9)
        keypoints = np.array(row.split(), np.float64).reshape(-1, 3)
        ids = keypoints[:, 2].astype(np.int64)
        pose = list(map(float, numbers))
        images.append(_image(name.strip(), int(camera), pose, keypoints[:, :2], ids))
    return images


def _text_points(path: pathlib.Path) -> list[tuple]:
    rows = (line.split()[:4] for line in filter(str.strip, _lines(path)))
    return [(int(number), float(x), float(y), float(z)) for number, x, y, z in rows]


_BINARY = (_binary_cameras, _binary_images, _binary_points)
_TEXT = (_text_cameras, _text_images, _text_points)
