"""The images that a dense network is trained and validated on, and their file."""

import contextlib
import hashlib
import os
import pathlib
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from doap_tf import files
from doap_tf.errors import InputError, one_line

SHAPE = (480, 640)
_JPEG_QUALITY = 85
_WEBCAM_FRACTION = 1 / 3  # of the webcams, held out


class ImagePool(NamedTuple):
    """Images of one size, of which views are made.

    Attributes:
        photos: uint8 [P, H, W].
        webcams: Images of static cameras, uint8 [Q, H, W].
        camera_numbers: int32 [Q], the camera of each of them.
    """

    photos: np.ndarray
    webcams: np.ndarray
    camera_numbers: np.ndarray

    def __str__(self) -> str:
        count = len(np.unique(self.camera_numbers))
        return f"{len(self.photos)} photographs and {count} webcams"

    def described(self) -> dict[str, Any]:
        """Returns what a record tells of the images."""
        return {"source": str(self), "sha256": arrays_sha256(self)}


class DenseImages(NamedTuple):
    """Images to train on, and others held out."""

    train: ImagePool
    held_out: ImagePool

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file that `load_images` reads, the images as JPEG: about 50 KB each."""
        arrays = {}
        for name, pool in self._asdict().items():
            arrays[f"{name}_camera_numbers"] = pool.camera_numbers
            for kind in ("photos", "webcams"):
                arrays.update(encode_images(f"{name}_{kind}", getattr(pool, kind)))
        with files.write_atomically(pathlib.Path(path)) as temporary:
            np.savez(temporary, **arrays)


def load_images(path: str | os.PathLike) -> DenseImages:
    """Reads the images of a file that `DenseImages.save` wrote."""
    with open_arrays(path, "images for dense networks") as content:
        return DenseImages(*(_decode_pool(content, name) for name in DenseImages._fields))


def arrays_sha256(arrays: Iterable[np.ndarray]) -> str:
    """Returns a hash of the shapes and values of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


@contextlib.contextmanager
def open_arrays(path: str | os.PathLike, what: str) -> Iterator[Any]:
    """Opens a file of arrays (.npz); what is wrong with it is said in one line."""
    try:
        with np.load(path, allow_pickle=False) as content:
            yield content
    except OSError as error:
        raise InputError(f"{os.fspath(path)} cannot be read: {error.strerror or error}.") from error
    except (KeyError, ValueError, zipfile.BadZipFile, tf.errors.InvalidArgumentError) as error:
        raise InputError(
            f"{os.fspath(path)} holds no {what} ({one_line(error)}): write it again from its "
            "photographs."
        ) from error


def encode_images(name: str, images: np.ndarray) -> dict[str, np.ndarray]:
    """Returns arrays for a file, by name, that hold images uint8 [N, H, W] as JPEG."""
    codes = [
        tf.io.encode_jpeg(image[..., np.newaxis], "grayscale", _JPEG_QUALITY).numpy()
        for image in images
    ]
    sizes = np.array([len(code) for code in codes], np.int64)
    return {name: np.frombuffer(b"".join(codes), np.uint8), f"{name}_bytes": sizes}


def decode_images(content: Any, name: str) -> np.ndarray:
    """Returns images, uint8 [N, H, W], of arrays that `encode_images` made."""
    codes, sizes = content[name], content[f"{name}_bytes"]
    parts = np.split(codes, np.cumsum(sizes)[:-1]) if len(sizes) else []
    images = [tf.io.decode_jpeg(part.tobytes(), 1).numpy()[..., 0] for part in parts]
    return np.array(images, np.uint8).reshape(-1, *(images[0].shape if images else SHAPE))


def read_images(source: str, aligned_source: str | None, fraction: float) -> DenseImages:
    """Reads photographs and images of webcams from folders or globs.

    Args:
        source: Photographs.
        aligned_source: Images of static cameras, a folder each; a third of the cameras are held
            out.
        fraction: Share of the photographs to hold out.
    """
    # Imported here because a file of images is read without OpenCV.
    from doap_tf.patch_generation.scenes import find_scenes, split_scenes

    photographs = split_scenes(find_scenes(source), fraction)
    aligned: Any = ([], [])
    if aligned_source is not None:
        aligned = split_scenes(find_scenes(aligned_source, "aligned"), _WEBCAM_FRACTION)
    return DenseImages(*map(_read_pool, photographs, aligned))


def _read_pool(photographs: list[Any], aligned: list[Any]) -> ImagePool:
    from doap_tf.parallel import parallel_map

    numbered = [(number, file) for number, scene in enumerate(aligned) for file in scene.files]
    paths = [scene.files[0] for scene in photographs] + [file for _, file in numbered]
    images = np.array(list(parallel_map(_read, paths)), np.uint8).reshape(-1, *SHAPE)
    cameras = np.array([number for number, _ in numbered], np.int32)
    return ImagePool(images[: len(photographs)], images[len(photographs) :], cameras)


def _read(path: pathlib.Path) -> np.ndarray:
    """Reads an image, turned if it is upright, and cuts its middle at the largest scale."""
    import cv2

    from doap_tf.readers.images import read_grey

    image = read_grey(path)
    if image.shape[0] > image.shape[1]:
        image = np.rot90(image)
    scale = max(wanted / side for wanted, side in zip(SHAPE, image.shape, strict=True))
    height, width = (
        max(wanted, round(side * scale)) for wanted, side in zip(SHAPE, image.shape, strict=True)
    )
    method = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    image = cv2.resize(np.ascontiguousarray(image), (width, height), interpolation=method)
    top, left = (height - SHAPE[0]) // 2, (width - SHAPE[1]) // 2
    return image[top : top + SHAPE[0], left : left + SHAPE[1]]


def _decode_pool(content: Any, name: str) -> ImagePool:
    photos, webcams = (decode_images(content, f"{name}_{kind}") for kind in ("photos", "webcams"))
    pool = ImagePool(photos, webcams, content[f"{name}_camera_numbers"])
    if len(pool.webcams) != len(pool.camera_numbers):
        raise ValueError(
            f"{len(pool.webcams)} images of webcams and {len(pool.camera_numbers)} numbers"
        )
    return pool
