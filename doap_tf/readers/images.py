"""Reading image files, and converting images in memory to grey values or colours."""

import io
import os
import pathlib
import struct

import cv2
import numpy as np

from doap_tf.errors import InputError, is_out_of_memory

IMAGE_SUFFIXES = frozenset(
    {".bmp", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp"}
)

# Larger images must have a byte for every thousand pixels, else OpenCV would allocate gigabytes for
# a damaged header. The flattest photographs have a hundred pixels per byte.
_SMALL_PIXELS = 2**24
_MAX_PIXELS_PER_BYTE = 1000

_UPRIGHT, _STORED = cv2.IMREAD_ANYDEPTH | cv2.IMREAD_ANYCOLOR, cv2.IMREAD_UNCHANGED
_FIRST_MARKER, _EXIF_MARKER, _PIXELS_MARKER = 0xFFC0, 0xFFE1, 0xFFDA  # of segments of JPEG files
_ORIENTATION_TAG = 0x0112
# By EXIF orientation: whether columns and rows of the file are counted from its end.
_MIRRORED = {
    1: (False, False),
    2: (True, False),
    3: (True, True),
    4: (False, True),
    5: (False, False),
    6: (False, True),
    7: (True, True),
    8: (True, False),
}

#: An image in memory, or the path of its file.
ImageLike = np.ndarray | str | os.PathLike


def read_image(path: str | os.PathLike, upright: bool = True) -> np.ndarray:
    """Reads an image file with all its channels and its full depth.

    Args:
        path: The file, in any format that OpenCV reads.
        upright: Whether to apply the EXIF orientation.

    Returns:
        [H, W], or [H, W, 3] in OpenCV's order BGR; uint8, uint16 or float32. Without `upright` an
        alpha channel is kept, too.
    """
    return _decode(path, _read_bytes(path), _UPRIGHT if upright else _STORED)


def read_upright(path: str | os.PathLike) -> tuple[np.ndarray, np.ndarray]:
    """Reads an image file upright, for keypoints in pixels of the file as it is stored.

    COLMAP and hloc ignore the EXIF orientation: what is detected in the upright image must be given
    to them where the file has it.

    Returns:
        The image, as `read_image` returns it, and the map of its pixels to those of the file,
        float64 [2, 3].
    """
    encoded = _read_bytes(path)
    orientation = exif_orientation(encoded)
    # Orientations of other files than JPEG are not undone: not all versions of OpenCV know them.
    image = _decode(path, encoded, _STORED if orientation == 1 else _UPRIGHT)
    height, width = image.shape[:2]
    return image, orientation_map(
        orientation, (height, width) if orientation >= 5 else (width, height)
    )


def shrink(image: np.ndarray, max_size: int | None) -> np.ndarray:
    """Returns an image whose longer side has at most so many pixels, None for any number."""
    height, width = image.shape[:2]
    longer = max(height, width)
    if max_size is None or longer <= max_size:
        return image
    size = [max(1, round(side * max_size / longer)) for side in (width, height)]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def resizing_map(before: tuple[int, ...], after: tuple[int, ...]) -> np.ndarray:
    """Returns the map of pixels to those of the image resized, of shapes [H, W], float64 [2, 3]."""
    y, x = np.divide(after[:2], before[:2])
    return np.array([[x, 0, (x - 1) / 2], [0, y, (y - 1) / 2]])


def orientation_map(orientation: int, size: tuple[int, int]) -> np.ndarray:
    """Returns the map of an upright image's pixels to those that are stored, float64 [2, 3].

    Args:
        orientation: Of EXIF data, 1 to 8.
        size: Width and height as stored.
    """
    to_stored = np.eye(2, 3)
    for axis, (mirrored, side) in enumerate(zip(_MIRRORED[orientation], size, strict=True)):
        if mirrored:
            to_stored[axis, [axis, 2]] = -1, side - 1
    if orientation >= 5:
        to_stored[:, :2] = to_stored[:, 1::-1]
    return to_stored


def exif_orientation(encoded: bytes) -> int:
    """Returns the EXIF orientation of a JPEG file, 1 (upright) to 8; 1 for all other files."""
    position = 2
    try:
        while encoded.startswith(b"\xff\xd8"):
            marker, length = struct.unpack_from(">HH", encoded, position)
            if marker == _EXIF_MARKER and encoded[position + 4 :].startswith(b"Exif\0\0"):
                return _tiff_orientation(encoded[position + 10 : position + 2 + length])
            if not _FIRST_MARKER <= marker != _PIXELS_MARKER:
                break
            position += 2 + length
    except (struct.error, KeyError):  # damaged EXIF data say nothing
        pass
    return 1


def _tiff_orientation(data: bytes) -> int:
    order = {b"II": "<", b"MM": ">"}[data[:2]]
    (directory,) = struct.unpack_from(order + "4xI", data)
    (count,) = struct.unpack_from(order + "H", data, directory)
    for entry in range(count):
        tag, value = struct.unpack_from(order + "H6xH", data, directory + 2 + 12 * entry)
        if tag == _ORIENTATION_TAG and value in _MIRRORED:
            return value
    return 1


def read_grey(path: str | os.PathLike) -> np.ndarray:
    """Reads an image file as grey values, uint8 [H, W]; other depths as `as_grey` converts them."""
    return _as_bytes(_decode(path, _read_bytes(path), cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH))


def read_rgb(path: str | os.PathLike) -> np.ndarray:
    """Reads an image file as colours, uint8 [H, W, 3] in the order RGB."""
    image = _as_bytes(_decode(path, _read_bytes(path), cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH))
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def find_image(folder: pathlib.Path, stem: str) -> pathlib.Path | None:
    """Returns the image of that name with any image suffix, or None if there is none."""
    files = [
        path
        for path in sorted(folder.glob(f"{stem}.*"))
        if path.stem == stem and path.suffix.lower() in IMAGE_SUFFIXES
    ]
    if len(files) > 1:
        raise InputError(f"{folder} holds {files[0].name} and {files[1].name}; keep one of them")
    return files[0] if files else None


def as_grey(image: ImageLike) -> np.ndarray:
    """Converts any image to grey values, uint8 [H, W].

    Args:
        image: The path of a file, read upright; or [H, W], [H, W, 1], BGR [H, W, 3] or BGRA
            [H, W, 4], whose alpha is ignored. Of uint16 the eight leading bits in use are kept, so
            that 12 bits in 16 are not dark; floats range from 0 to 1, or to 255 if any is above 1.
    """
    image = _as_bytes(_checked(image))
    if image.ndim == 2:
        return image
    return cv2.cvtColor(image, cv2.COLOR_BGR2GRAY if image.shape[2] == 3 else cv2.COLOR_BGRA2GRAY)


def as_colour(image: ImageLike) -> np.ndarray:
    """Converts any image that `as_grey` takes to colours, uint8 BGR [H, W, 3]."""
    image = _as_bytes(_checked(image))
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return np.ascontiguousarray(image[..., :3])


def _read_bytes(path: str | os.PathLike) -> bytes:
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read image {path}: {error.strerror}") from error


def _decode(path: str | os.PathLike, encoded: bytes, flags: int) -> np.ndarray:
    # Not cv2.imread: from memory OpenCV refuses truncated files that it would pad from disk.
    pixels = _claimed_pixels(encoded)
    if pixels > max(_SMALL_PIXELS, _MAX_PIXELS_PER_BYTE * len(encoded)):
        raise InputError(
            f"{path} claims to have {pixels:,} pixels, but has {len(encoded):,} bytes; "
            "fetch or unpack it again"
        )
    try:
        image = cv2.imdecode(np.frombuffer(_without_profile(encoded), np.uint8), flags)
    except cv2.error as error:
        if is_out_of_memory(error):
            raise
        image = None
    if image is None:
        raise InputError(
            f"{path} ({len(encoded):,} bytes) is not an image that OpenCV can decode, or damaged; "
            "replace it"
        )
    return image


def _claimed_pixels(encoded: bytes) -> int:
    """Returns width times height according to the header; 0 if Pillow does not know."""
    try:
        import PIL.Image
    except ImportError:  # the light installation
        return 0
    try:
        with PIL.Image.open(io.BytesIO(encoded)) as image:
            return image.width * image.height
    except PIL.Image.DecompressionBombError:
        return 2 * (PIL.Image.MAX_IMAGE_PIXELS or 0)  # or more
    except Exception:  # Pillow's plugins raise nearly anything for damaged headers
        return 0


def _without_profile(encoded: bytes) -> bytes:
    """Removes a PNG's colour profile: OpenCV ignores it, but libpng prints warnings about it."""
    start = encoded.find(b"iCCP", 0, encoded.find(b"IDAT")) - 4
    if start < 0 or not encoded.startswith(b"\x89PNG"):
        return encoded
    length = int.from_bytes(encoded[start : start + 4], "big")
    return encoded[:start] + encoded[start + length + 12 :]  # with length, type and checksum


def _checked(image: ImageLike) -> np.ndarray:
    if image is None:
        raise InputError("the image is None: cv2.imread could not read the file; check its path.")
    if isinstance(image, str | os.PathLike):
        image = read_image(image)
    image = np.asarray(image)
    if not image.dtype.isnative:
        image = image.astype(image.dtype.newbyteorder("="))
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    planes = image.shape[2:]
    if image.ndim < 2 or planes not in ((), (3,), (4,)) or not image.size:
        raise InputError(
            f"an image must have the shape [H, W], [H, W, 3] or [H, W, 4] and not be empty, "
            f"but has {list(image.shape)}."
        )
    return image


def _as_bytes(image: np.ndarray) -> np.ndarray:
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    if image.dtype == np.uint16:
        bits = max(8, int(image.max()).bit_length())
        return (image >> (bits - 8)).astype(np.uint8)
    if not np.issubdtype(image.dtype, np.floating):
        raise InputError(f"an image must be uint8, uint16 or float, not {image.dtype}.")
    if not np.isfinite(image).all():
        raise InputError("an image of floats must be finite, but holds NaN or infinity.")
    if image.max() > 256:  # not 255: resizing overshoots
        raise InputError(
            f"an image of floats must lie in 0…1 or 0…255, but reaches {image.max():g}: scale it."
        )
    scale = 255.0 if image.max() <= 1 else 1.0
    return np.clip(np.rint(image * scale), 0, 255).astype(np.uint8)
