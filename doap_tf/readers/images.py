"""Reading one image file, whole or not at all."""

import os
import pathlib

import cv2
import numpy as np

from doap_tf.errors import InputError

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)


def read_image(path: str | os.PathLike, color: bool = False) -> np.ndarray:
    """Reads an image in any format that OpenCV knows.

    Args:
        path: the file.
        color: whether to give RGB instead of grey.

    Returns:
        uint8 [H, W], or [H, W, 3] in the order RGB if `color`.
    """
    path = pathlib.Path(path)
    try:
        # Not cv2.imread: from memory OpenCV refuses cut files that it would fill up from disk.
        encoded = np.frombuffer(path.read_bytes(), np.uint8)
    except OSError as error:
        raise InputError(f"cannot read image {path}: {error.strerror}") from error
    try:
        image = cv2.imdecode(encoded, cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE)
    except cv2.error:
        image = None
    if image is None:
        raise InputError(
            f"{path} ({encoded.size} bytes) is no whole image that OpenCV can decode; "
            "fetch or unpack it again"
        )
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB) if color else image


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
