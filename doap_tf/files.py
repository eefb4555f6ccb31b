"""Files and folders: writing them so that a crash never leaves half of one, and hashing them."""

import contextlib
import errno
import glob
import hashlib
import itertools
import os
import pathlib
import shutil
import tempfile
import time
from collections.abc import Iterator

_ABANDONED_SECONDS = 24 * 60 * 60


@contextlib.contextmanager
def write_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path of the same name; the file written there becomes `path`.

    The parent folder is made if needed. If the block raises or the process is killed, `path` is
    left as it was. A later writer of `path` removes what a killed one left beside it.
    """
    path = pathlib.Path(path)
    with _hidden_folder(path) as folder:
        temporary = folder / path.name
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)


def write_file(path: str | os.PathLike, content: bytes | str) -> None:
    """Writes a file as `write_atomically` does, text in UTF-8."""
    with write_atomically(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def write_directory_atomically(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Like `write_atomically` for a folder: yields an empty one, which replaces `path`."""
    path = pathlib.Path(path)
    with _hidden_folder(path) as folder:
        temporary = folder / path.name
        temporary.mkdir()
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _sync(file)
        _replace_folder(temporary, path)
        _sync(path.parent)


def printable(name: str) -> str:
    r"""Returns a file's name with bytes that are no UTF-8 written as \xe9."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def contents_sha256(*paths: str | os.PathLike) -> str:
    """Returns the SHA-256 of the bytes of files, one after another."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def _hidden_folder(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields an empty folder beside `path` and removes it at the end."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.partial"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - leftover.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(
            ".partial", f".{path.name}.", path.parent, ignore_cleanup_errors=True
        ) as folder:
            yield pathlib.Path(folder)
    except OSError as error:
        # A full disk names no file, other errors the hidden one: users know `path`.
        named = str(error.filename or "")
        if error.errno is not None and (not named or f".{path.name}." in named):
            error.filename = str(path)
        raise


def _replace_folder(new: pathlib.Path, path: pathlib.Path) -> None:
    """Puts `new` in the place of `path`; of several writers the last one wins."""
    for attempt in itertools.count():
        old = new.with_name(f"{new.name}.old{attempt}")
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, old)
        try:
            os.replace(new, path)
            return
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                continue  # another writer was faster
            if old.exists():
                os.replace(old, path)
            raise


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
