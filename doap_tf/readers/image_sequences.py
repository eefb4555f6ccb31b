"""Image sequences with homographies, as distributed by Oxford's VGG and by HPatches."""

import os
import pathlib
from typing import NamedTuple

import numpy as np

from doap_tf.errors import InputError
from doap_tf.parallel import map_ahead
from doap_tf.readers.images import find_image, read_rgb

IMAGES = 6

# (the image's stem, the homography from image 1): Oxford's names, then HPatches'.
_LAYOUTS = (("img{}", "H1to{}p"), ("{}", "H_1_{}"))


class ImageSequence(NamedTuple):
    """Six images of one scene; `homographies[i]` maps pixels of image 0 to those of image i + 1."""

    name: str
    images: list[np.ndarray]  # six arrays, uint8 [H, W, 3], RGB
    homographies: np.ndarray  # float64 [5, 3, 3]


def read_homography(path: str | os.PathLike) -> np.ndarray:
    """Reads a text file of 3×3 numbers: float64 [3, 3]."""
    try:
        numbers = pathlib.Path(path).read_text("utf-8").split()
        matrix = np.array(numbers, np.float64).reshape(3, 3)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is not a homography of 3×3 numbers ({error}); fetch it again"
        ) from error
    with np.errstate(all="ignore"):
        # Measured with the columns at unit length, so that the size of the image does not matter.
        volume = abs(np.linalg.det(matrix / np.linalg.norm(matrix, axis=0)))
    if not volume > 1e-12:
        raise InputError(f"{path} is a singular homography, {matrix.tolist()}; fetch it again")
    return matrix


def list_image_sequences(folder: str | os.PathLike) -> list[pathlib.Path]:
    """Returns the subfolders that hold a first image or homography, sorted by name."""
    patterns = [name for stem, matrix in _LAYOUTS for name in (f"{stem}.*", matrix)]
    files = (
        path
        for pattern in patterns
        for number in (1, 2)
        for path in pathlib.Path(folder).glob(f"*/{pattern.format(number)}")
    )
    sequences = sorted({path.parent for path in files})
    if not sequences:
        raise InputError(
            f"{folder} holds no sequence folders with img1.ppm and H1to2p, or 1.ppm and H_1_2"
        )
    return sequences


def read_image_sequence(folder: str | os.PathLike) -> ImageSequence:
    """Reads the six images and five homographies of one folder, in either layout."""
    folder = pathlib.Path(folder)
    stem, matrix = next(
        (layout for layout in _LAYOUTS if find_image(folder, layout[0].format(1))), _LAYOUTS[0]
    )
    stems = [stem.format(number) for number in range(1, IMAGES + 1)]
    images = {name: find_image(folder, name) for name in stems}
    matrices = [folder / matrix.format(number) for number in range(2, IMAGES + 1)]
    missing = [f"{name}.ppm" for name, path in images.items() if path is None]
    missing += [path.name for path in matrices if not path.is_file()]
    if missing:
        raise InputError(f"sequence {folder} lacks {', '.join(missing)}; fetch or unpack it again")
    return ImageSequence(
        folder.name,
        list(map_ahead(read_rgb, filter(None, images.values()))),
        np.stack([read_homography(path) for path in matrices]),
    )
