"""Reading a video as photographs: every so many frames one, the sharpest of its neighbours."""

import os
import pathlib
from collections.abc import Iterator

import cv2
import numpy as np

from doap_tf.errors import InputError
from doap_tf.files import write_file
from doap_tf.progress import progress

VIDEO_SUFFIXES = (".avi", ".m4v", ".mkv", ".mov", ".mp4", ".webm")
_BLURRED = 0.25  # times the median sharpness of the video
_SHARPNESS_SIDE = 640  # pixels; sharpness is compared at this size


def write_video_frames(
    video: str | os.PathLike, folder: str | os.PathLike, every: int
) -> list[pathlib.Path]:
    """Writes frames of a video as JPEG files named by their number, such as `000030.jpg`.

    Of `every` frames in a row the sharpest is written, and none if it is blurred: if the variance
    of its Laplacian is below a quarter of the median of those chosen. Numbered files that an
    earlier call left in the folder are deleted.

    Args:
        video: A file that OpenCV reads. Its frames are turned upright as the file says.
        folder: Made if necessary.
        every: Number of frames that one is chosen of; 1 for all.

    Returns:
        The files, in order.
    """
    if every < 1:
        raise InputError(f"every must be at least 1, not {every}.")
    # The first pass only measures, so that no more than one frame is in memory.
    sharpness = np.array([_sharpness(frame) for frame in progress(_frames(video), "reading")])
    starts = range(0, len(sharpness), every)
    chosen = np.array([start + sharpness[start : start + every].argmax() for start in starts], int)
    if not len(chosen):
        raise InputError(f"{video} has no frame that OpenCV can read: convert it, as to MP4.")
    kept = chosen[sharpness[chosen] >= _BLURRED * np.median(sharpness[chosen])]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {int(number): folder / f"{number:06d}.jpg" for number in kept}
    for path in set(folder.glob("[0-9]*.jpg")) - set(paths.values()):
        path.unlink()
    for number, frame in enumerate(_frames(video)):
        if number in paths:
            data = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 95])[1]
            write_file(paths[number], data.tobytes())
    return list(paths.values())


def _frames(video: str | os.PathLike) -> Iterator[np.ndarray]:
    capture = cv2.VideoCapture(os.fspath(video))
    try:
        while True:
            read, frame = capture.read()
            if not read:
                return
            yield frame
    finally:
        capture.release()


def _sharpness(frame: np.ndarray) -> float:
    grey = cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
    scale = _SHARPNESS_SIDE / max(grey.shape)
    if scale < 1:
        grey = cv2.resize(grey, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(grey, cv2.CV_32F).var())
