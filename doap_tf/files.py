"""Writing files and folders so that a crash never leaves half of one."""

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator


def _temporary_name(path: pathlib.Path) -> pathlib.Path:
    # The suffix is kept because writers such as cv2.imwrite and Keras choose the format by it.
    return path.with_name(f".{path.stem}.{uuid.uuid4().hex[:12]}.partial{path.suffix}")


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives a temporary path beside `path`; what was written there replaces `path` on success.

    The parent folder is made if needed. If the block raises, `path` is left as it was and the
    temporary file is removed.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def write_directory_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives an empty temporary folder beside `path`; it becomes `path` on success.

    An older folder at `path` is replaced. If the block raises, `path` is left as it was.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary_name(path)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        if path.exists():
            old = _temporary_name(path)
            os.replace(path, old)
            os.replace(temporary, path)
            shutil.rmtree(old)
        else:
            os.replace(temporary, path)
        _sync(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
