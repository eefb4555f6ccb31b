"""Pictures, uint8 [H, W] or BGR [H, W, 3], from Matplotlib and to files, without OpenCV."""

import io
import os
import pathlib

import numpy as np
import PIL.Image
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from doap_tf.errors import InputError
from doap_tf.files import write_atomically

_JPEG_QUALITY = 95
_SMALL_JPEG_QUALITY = 80


def render(figure: Figure) -> np.ndarray:
    """Renders a Matplotlib figure as a BGR picture."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., 2::-1])


def encode_png(picture: np.ndarray) -> bytes:
    """Encodes a picture as PNG."""
    buffer = io.BytesIO()
    _image(picture).save(buffer, "PNG")
    return buffer.getvalue()


def encode_jpeg(picture: np.ndarray) -> bytes:
    """Encodes a picture as a small JPEG."""
    buffer = io.BytesIO()
    _image(picture).save(buffer, "JPEG", quality=_SMALL_JPEG_QUALITY)
    return buffer.getvalue()


def write_picture(path: str | os.PathLike, picture: np.ndarray) -> None:
    """Writes a picture in the format that the suffix of `path` names, such as `.png`."""
    formats = PIL.Image.registered_extensions()
    if formats.get(pathlib.Path(path).suffix.lower()) not in PIL.Image.SAVE:
        raise InputError(f"{path} is not the name of a picture, such as {path}.png.")
    with write_atomically(path) as temporary:
        _image(picture).save(temporary, quality=_JPEG_QUALITY)


def _image(picture: np.ndarray) -> PIL.Image.Image:
    return PIL.Image.fromarray(picture if picture.ndim == 2 else picture[..., ::-1])
