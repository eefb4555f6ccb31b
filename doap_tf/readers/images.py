"""Reading one image file, whole or not at all."""

import os
import pathlib

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.readers.image_size import claimed_pixels

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)


# A file that claims more pixels is refused unless it has a byte for every thousand of them: OpenCV
# would make gigabytes of a header. The flattest photographs have a hundred pixels a byte.
_SMALL = 2**24
_MOST_PIXELS_A_BYTE = 1000


def read_image(path: str | os.PathLike, color: bool = False) -> np.ndarray:
    """Reads an image in any format that OpenCV knows.

    Args:
        path: the file.
        color: whether to give RGB instead of grey.

    Returns:
        uint8 [H, W], or [H, W, 3] in the order RGB if `color`.
    """
    image = decode_file(path, cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if color else image


def decode_file(path: str | os.PathLike, flags: int) -> np.ndarray:
    """Gives what `cv2.imread` would with these flags; an InputError for what is no whole image."""
    try:
        # Not cv2.imread: from memory OpenCV refuses cut files that it would fill up from disk.
        encoded = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read image {path}: {error.strerror}") from error
    pixels = claimed_pixels(encoded)
    if pixels > max(_SMALL, _MOST_PIXELS_A_BYTE * len(encoded)):
        raise InputError(
            f"{path} claims {pixels} pixels, which {len(encoded)} bytes cannot hold; "
            "fetch or unpack it again"
        )
    try:
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
    except cv2.error:
        image = None
    if image is None:
        raise InputError(
            f"{path} ({len(encoded)} bytes) is no whole image that OpenCV can decode; "
            "is it damaged or another kind of file?"
        )
    return image


def find_image(folder: pathlib.Path, stem: str) -> pathlib.Path | None:
    """The one image of that name with any image suffix, or None if there is none."""
    found = [
        path
        for path in sorted(folder.glob(f"{stem}.*"))
        if path.stem == stem and path.suffix.lower() in IMAGE_SUFFIXES
    ]
    if len(found) > 1:
        raise InputError(f"{folder} holds {found[0].name} and {found[1].name}; keep one of them")
    return found[0] if found else None
