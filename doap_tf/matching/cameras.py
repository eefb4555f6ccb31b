"""COLMAP's cameras: the focal length from EXIF data, and which images share a camera."""

import math
import os
from collections.abc import Hashable, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from doap_tf.errors import InputError, check_choice
from doap_tf.readers.colmap_model import CAMERA_MODELS

#: How images share cameras; see `Cameras`.
CAMERA_SHARING = ("auto", "single", "per_image")

_DEFAULT_FOCAL_LENGTH = 1.2  # over the longer side: COLMAP's without EXIF data
_DIAGONAL_35MM = 43.27  # mm; CIPA defines equivalent focal lengths by the diagonal
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0, 5: 0.001}  # of FocalPlaneResolutionUnit

#: Widths of sensors in mm, for cameras that often leave the 35 mm equivalent out.
_SENSOR_WIDTHS = {
    "canon eos 5d mark ii": 36.0,
    "canon eos 5d mark iii": 36.0,
    "canon eos 5d mark iv": 36.0,
    "canon eos 5d": 35.8,
    "canon eos 6d": 35.8,
    "canon eos 450d": 22.2,
    "nikon d90": 23.6,
    "dji fc220": 6.17,
    "dji fc330": 6.25,
    "dji fc6310": 13.2,
    "gopro hero4 black": 6.17,
    "gopro hero4 silver": 6.17,
    "apple iphone 4": 4.54,
    "apple iphone 4s": 4.54,
}


class Exif(NamedTuple):
    """What the EXIF data of an image say about its camera; empty or 0 if they do not.

    Attributes:
        make, model: of the camera.
        equivalent: Focal length of a 35 mm camera, in mm.
        focal_length: in mm.
        density: Pixels per mm on the sensor.
        longer_side: of the image when it was taken, in pixels.
    """

    make: str = ""
    model: str = ""
    equivalent: float = 0
    focal_length: float = 0
    density: float = 0
    longer_side: float = 0


class Camera(NamedTuple):
    """A camera as COLMAP keeps it: one of `CAMERA_MODELS`, with the first pixel's corner at 0."""

    model: str
    size: tuple[int, int]
    parameters: list[float]
    has_prior: bool


class Cameras:
    """Finds the camera of each image.

    Args:
        images: Files by name, for their EXIF data, which only Pillow reads; without Pillow, or for
            images that are not here, the focal length is COLMAP's guess, 1.2 times the longer side.
        sharing: `"single"`: one camera took all images, which have one size. `"per_image"`: each
            has its own. `"auto"`: images of the same size, make, model and focal length share
            one, as in COLMAP.
        model: One of `CAMERA_MODELS`; by default `"SIMPLE_RADIAL"`, with `intrinsics` `"PINHOLE"`.
        intrinsics: [3, 3] of the camera, if known; images of one size share it.
    """

    def __init__(
        self,
        images: Mapping[str, str | os.PathLike] | None = None,
        sharing: str = "auto",
        model: str | None = None,
        intrinsics: np.ndarray | None = None,
    ):
        model = model or ("SIMPLE_RADIAL" if intrinsics is None else "PINHOLE")
        check_choice("sharing", sharing, CAMERA_SHARING)
        check_choice("model", model, CAMERA_MODELS)
        self._images = images or {}
        self._sharing = sharing
        self._model = model
        self._intrinsics = intrinsics
        self._cameras: dict[Hashable, tuple[int, Camera]] = {}

    def find(self, name: str, size: tuple[int, int]) -> tuple[int, Camera]:
        """Returns the number, from 1, and the camera of an image of a width and a height."""
        exif = read_exif(self._images[name]) if name in self._images else Exif()
        if self._sharing == "single":
            key: Hashable = None
        elif self._sharing == "per_image":
            key = name
        elif self._intrinsics is not None:
            key = size
        elif exif.make and exif.model and (exif.equivalent or exif.focal_length):
            key = size, exif.make, exif.model, exif.equivalent or exif.focal_length
        else:
            key = name
        if key not in self._cameras:
            self._cameras[key] = len(self._cameras) + 1, self._camera(exif, size)
        number, camera = self._cameras[key]
        if camera.size != size:
            raise InputError(
                f"a single camera takes images of one size, but {name} has "
                f"{size[0]} × {size[1]} pixels, others {camera.size[0]} × {camera.size[1]}: "
                "let images share cameras by themselves (auto)."
            )
        return number, camera

    def _camera(self, exif: Exif, size: tuple[int, int]) -> Camera:
        width, height = size
        if self._intrinsics is None:
            known = focal_length(exif, size)
            focal = known or _DEFAULT_FOCAL_LENGTH * max(size)
            values = {"f": focal, "fx": focal, "fy": focal, "cx": width / 2, "cy": height / 2}
        else:
            known = 1
            (fx, _, cx), (_, fy, cy), _ = self._intrinsics
            values = {"f": (fx + fy) / 2, "fx": fx, "fy": fy, "cx": cx + 0.5, "cy": cy + 0.5}
        parameters = [float(values.get(name, 0)) for name in CAMERA_MODELS[self._model]]
        return Camera(self._model, size, parameters, known is not None)


def read_exif(image: str | os.PathLike | IO[bytes]) -> Exif:
    """Reads the EXIF data of an image file; empty if there are none, or no Pillow."""
    try:
        import PIL.Image

        with PIL.Image.open(image) as opened:
            main = opened.getexif()
            details = main.get_ifd(0x8769)
    except Exception:  # Pillow's plugins raise nearly anything for what they cannot read
        return Exif()
    unit = _MM_PER_UNIT.get(details.get(0xA210, 2), 25.4)  # FocalPlaneResolutionUnit
    return Exif(
        _text(main.get(0x010F)),
        _text(main.get(0x0110)),
        _positive(details.get(0xA405)),  # FocalLengthIn35mmFilm
        _positive(details.get(0x920A)),  # FocalLength
        _positive(details.get(0xA20E)) / unit,  # FocalPlaneXResolution
        max(_positive(details.get(tag)) for tag in (0xA002, 0xA003)),  # PixelXDimension, …Y…
    )


def focal_length(exif: Exif, size: tuple[int, int]) -> float | None:
    """Returns the focal length in pixels of an image of a width and a height, or None."""
    if exif.equivalent:
        return exif.equivalent * math.hypot(*size) / _DIAGONAL_35MM
    if not exif.focal_length:
        return None
    longer = max(size)
    if exif.density:  # in pixels of the image as it was taken
        return exif.focal_length * exif.density * longer / (exif.longer_side or longer)
    make, model = exif.make.lower(), exif.model.lower()
    brand = make.partition(" ")[0]  # such as of NIKON CORPORATION, whose models repeat it
    width = _SENSOR_WIDTHS.get(model if model.startswith(brand) else f"{brand} {model}")
    return exif.focal_length / width * longer if width else None


def _text(value: Any) -> str:
    return str(value or "").replace("\0", "").strip()


def _positive(value: Any) -> float:
    """A number above 0, or 0 for all that is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, ZeroDivisionError):
        return 0.0
    return number if 0 < number < math.inf else 0.0
