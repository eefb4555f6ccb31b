"""Writing files and folders so that a crash never leaves half of one."""

import contextlib
import fcntl
import glob
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, operation: int) -> bool:
    """Locks an open folder until it is closed or the process ends; gives whether that worked."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError:  # another process holds it, or this file system has no locks
        return False
    return True


def _remove_leftovers(path: pathlib.Path) -> None:
    """Removes what killed writers of `path` left: the workshops that nobody holds any more."""
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
            try:
                if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                    shutil.rmtree(leftover)
            finally:
                os.close(descriptor)


def _open_workshop(path: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Makes a folder beside `path` that is held by this process while the descriptor is open."""
    while True:
        folder = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.partial")
        folder.mkdir()
        # Until it is locked, another writer may take it for a leftover.
        with contextlib.suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY)
            _lock(descriptor, fcntl.LOCK_EX)
            if folder.exists():
                return folder, descriptor
            os.close(descriptor)


@contextlib.contextmanager
def _workshop(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives an empty folder beside `path`, used by nobody else, and removes it at the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        folder, descriptor = _open_workshop(path)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)
    except OSError as error:
        # A full disk names no file, others name the workshop: users know `path`.
        named = str(error.filename or "")
        if error.errno is not None and (not named or f".{path.name}." in named):
            error.filename = str(path)
        raise


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives a temporary path for a file of the same name; what was written there becomes `path`.

    The parent folder is made if needed. If the block raises, `path` is left as it was. If the
    process is killed, so it is too, and the next writer of `path` removes what is left beside it.
    """
    path = pathlib.Path(path)
    with _workshop(path) as folder:
        temporary = folder / path.name
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)


@contextlib.contextmanager
def write_directory_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Like `write_atomically` for a folder; gives an empty one that exists.

    An older folder at `path` is replaced.
    """
    path = pathlib.Path(path)
    with _workshop(path) as folder:
        temporary = folder / path.name
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        parent = os.open(path.parent, os.O_RDONLY)
        try:
            _lock(parent, fcntl.LOCK_EX)  # two writers must not change places at the same time
            _take_place(temporary, path, folder / "old")
            os.fsync(parent)
        finally:
            os.close(parent)


def _take_place(new: pathlib.Path, path: pathlib.Path, old: pathlib.Path) -> None:
    """Puts the folder `new` to `path`; what was there goes to `old`, and comes back on failure."""
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(new, path)
    except OSError:
        if old.exists():
            os.replace(old, path)
        raise
