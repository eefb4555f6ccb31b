"""Pairs of images whose relative pose is known, in the layouts in which benchmarks publish them."""

import itertools
import os
import pathlib
import pickle
import zipfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from doap_tf.errors import InputError, one_line
from doap_tf.readers.images import find_image

#: Largest rotation in degrees between the cameras of a pair from `*.camera` files.
MAX_ROTATION = 75.0

_PAIR_LIST = "*pairs_with_gt.txt"
_COLUMNS = 38  # of a pair list: two names, two quarter turns, two matrices 3×3 and one 4×4
_CAMERA_NUMBERS = 26  # of a .camera file: matrix, three zeros, rotation, centre, size
_VISIBLE_PAIRS = "new-vis-pairs/keys-th-0.1.npy"


class PosedImage(NamedTuple):
    """An image of a calibrated camera.

    Attributes:
        path: Its file.
        intrinsics: float64 [3, 3], of the image as it is in the file.
        size: Width and height that the intrinsics are for; None for those of the file.
        turns: Quarter turns, counter-clockwise, after which the image stands upright.
    """

    path: pathlib.Path
    intrinsics: np.ndarray
    size: tuple[int, int] | None = None
    turns: int = 0


class PosePair(NamedTuple):
    """Two images, and the pose [3, 3], [3] from the first camera to the second."""

    image1: PosedImage
    image2: PosedImage
    rotation: np.ndarray
    translation: np.ndarray


def read_pose_pairs(path: str | os.PathLike) -> list[PosePair]:
    """Reads the pairs of a file or folder.

    Args:
        path: A pair list of SuperGlue's format (ScanNet-1500, YFCC) or a `.npz` of LoFTR's
            (MegaDepth-1500), with the images below its folder, or a folder with such files; a
            scene of IMC PhotoTourism (`images`, `calibration`, `new-vis-pairs`) or a folder above;
            or a folder of images with `*.camera` files, of which all pairs are taken whose cameras
            are turned by at most `MAX_ROTATION` degrees against each other.
    """
    path = pathlib.Path(path)
    pairs = [pair for read, source in _sources(path) for pair in read(source)]
    if not pairs:
        raise InputError(
            f"{path} holds no pairs with poses: neither {_PAIR_LIST} nor .npz files of LoFTR, nor "
            f"{_VISIBLE_PAIRS} of IMC PhotoTourism, nor *.camera files."
        )
    for image in {image.path: image for pair in pairs for image in pair[:2]}.values():
        if not image.path.is_file():
            raise InputError(f"{path} needs the image {image.path}, which is missing.")
        _check_camera(image)
    for pair in pairs:
        _check_pose(pair)
    return pairs


def _sources(path: pathlib.Path) -> Iterator[tuple[Callable, pathlib.Path]]:
    """Yields files and folders with what reads each."""
    if path.is_file():
        yield (_read_scene_info if path.suffix == ".npz" else _read_pair_list), path
        return
    yield from ((_read_pair_list, file) for file in sorted(path.glob(_PAIR_LIST)))
    yield from ((_read_scene_info, file) for file in sorted(path.glob("*.npz")))
    for above in ("", "*/", "*/*/"):
        for file in sorted(path.glob(above + _VISIBLE_PAIRS)):
            yield _read_phototourism, file.parents[1]
    if any(path.glob("*.camera")):
        yield _read_cameras, path


def _read_pair_list(path: pathlib.Path) -> Iterator[PosePair]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a list of pairs ({one_line(error)}).") from error
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words:
            continue
        try:
            if len(words) != _COLUMNS:
                raise ValueError(f"{len(words)} columns")
            numbers = np.array(words[4:], np.float64)
            image1, image2 = [
                PosedImage(path.parent / name, matrix.reshape(3, 3), None, int(turns) % 4)
                for name, turns, matrix in zip(
                    words[:2], words[2:4], (numbers[:9], numbers[9:18]), strict=True
                )
            ]
        except ValueError as error:
            raise InputError(
                f"{path}, line {number}, must have {_COLUMNS} columns: two images, their quarter "
                f"turns, two camera matrices and the pose ({one_line(error)})."
            ) from error
        pose = numbers[18:].reshape(4, 4)
        yield PosePair(image1, image2, pose[:3, :3], pose[:3, 3])


def _read_scene_info(path: pathlib.Path) -> Iterator[PosePair]:
    try:
        info = _read_arrays(path)
        names, cameras, poses = (info[key] for key in ("image_paths", "intrinsics", "poses"))
        for (first, second), *_ in info["pair_infos"]:
            images = [
                PosedImage(path.parent / str(names[row]), np.array(cameras[row], np.float64))
                for row in (first, second)
            ]
            extrinsics = [np.array(poses[row], np.float64).reshape(4, 4) for row in (first, second)]
            yield _pair(*images, *((pose[:3, :3], pose[:3, 3]) for pose in extrinsics))
    except Exception as error:  # damaged archives and pickles raise nearly anything
        raise InputError(
            f"{path} is not scene information of LoFTR's, with image_paths, intrinsics, poses and "
            f"pair_infos, or damaged ({one_line(error)}); fetch it again."
        ) from error


def _read_phototourism(folder: pathlib.Path) -> Iterator[PosePair]:
    import h5py

    path = folder / _VISIBLE_PAIRS
    try:
        with path.open("rb") as file:
            keys = [tuple(str(key).split("-")) for key in _read_array(file).ravel()]
        if any(len(names) != 2 for names in keys):
            raise ValueError("pairs must be written NAME-NAME")
        images, poses = {}, {}
        for name in {name: None for names in keys for name in names}:
            path = folder / "calibration" / f"calibration_{name}.h5"
            with h5py.File(path, "r") as file:
                matrix, rotation, translation = (np.array(file[key], float) for key in "KRT")
            image = find_image(folder / "images", name) or folder / "images" / f"{name}.jpg"
            images[name] = PosedImage(image, matrix.reshape(3, 3))
            poses[name] = rotation.reshape(3, 3), translation.reshape(3)
    except InputError:
        raise
    except Exception as error:  # HDF5 and NumPy raise many kinds for damaged files
        raise InputError(
            f"{path} is missing or damaged ({one_line(error)}); fetch {folder} again."
        ) from error
    for first, second in keys:
        yield _pair(images[first], images[second], poses[first], poses[second])


def _read_cameras(folder: pathlib.Path) -> Iterator[PosePair]:
    cameras = [_read_camera(path) for path in sorted(folder.glob("*.camera"))]
    for (image1, pose1), (image2, pose2) in itertools.combinations(cameras, 2):
        pair = _pair(image1, image2, pose1, pose2)
        cosine = np.clip((np.trace(pair.rotation) - 1) / 2, -1, 1)
        if np.degrees(np.arccos(cosine)) <= MAX_ROTATION:
            yield pair


def _read_camera(path: pathlib.Path) -> tuple[PosedImage, tuple[np.ndarray, np.ndarray]]:
    """Reads a file of Strecha et al.: the columns of its rotation are the camera's axes."""
    try:
        numbers = np.array(path.read_text("utf-8").split(), np.float64)
        if len(numbers) != _CAMERA_NUMBERS:
            raise ValueError(f"{len(numbers)} numbers")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} must have {_CAMERA_NUMBERS} numbers: camera matrix, three zeros, rotation, "
            f"centre and image size ({one_line(error)})."
        ) from error
    rotation = numbers[12:21].reshape(3, 3).T
    width, height = numbers[24:].astype(int).tolist()
    image = PosedImage(path.with_suffix(""), numbers[:9].reshape(3, 3), (width, height))
    return image, (rotation, -rotation @ numbers[21:24])


def _pair(image1: PosedImage, image2: PosedImage, pose1: Any, pose2: Any) -> PosePair:
    """Makes a pair from poses (rotation, translation) from the world to each camera."""
    rotation = pose2[0] @ pose1[0].T
    return PosePair(image1, image2, rotation, pose2[1] - rotation @ pose1[1])


def _check_camera(image: PosedImage) -> None:
    matrix = image.intrinsics
    right = matrix.shape == (3, 3) and np.isfinite(matrix).all()
    right = right and min(matrix[0, 0], matrix[1, 1]) > 0 and (matrix[2] == [0, 0, 1]).all()
    if not right or (image.size and min(image.size) < 1):
        raise InputError(
            f"the camera matrix of {image.path} must be [[fx, s, cx], [0, fy, cy], [0, 0, 1]], not "
            f"{matrix.tolist()}."
        )


def _check_pose(pair: PosePair) -> None:
    product = pair.rotation @ pair.rotation.T
    if not np.allclose(product, np.eye(3), atol=1e-2) or not np.isfinite(pair.translation).all():
        raise InputError(
            f"the pose of {pair.image1.path} and {pair.image2.path.name} is no rotation with a "
            f"translation: {pair.rotation.tolist()}, {pair.translation.tolist()}."
        )


def _read_arrays(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Reads an `.npz` whose arrays may hold Python objects, without running any of its code."""
    with zipfile.ZipFile(path) as archive:
        arrays = {}
        for name in archive.namelist():
            with archive.open(name) as file:
                arrays[name.removesuffix(".npy")] = _read_array(file)
        return arrays


def _read_array(file: Any) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    read_header = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    _, _, dtype = read_header(file)
    if dtype.hasobject:
        return _PlainUnpickler(file).load()
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


class _PlainUnpickler(pickle.Unpickler):
    """Makes arrays, numbers, texts and containers of them, and refuses all else."""

    _NAMES = frozenset({"_reconstruct", "scalar", "ndarray", "dtype", "_frombuffer", "encode"})

    def find_class(self, module: str, name: str) -> Any:
        package = module.partition(".")[0]
        if name not in self._NAMES or package not in ("numpy", "_codecs"):
            raise pickle.UnpicklingError(f"it wants to run {module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)
