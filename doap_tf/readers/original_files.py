"""Getting a dataset's original files: from a folder, an archive, or the first mirror that works."""

import dataclasses
import errno
import gzip
import hashlib
import http.client
import lzma
import os
import pathlib
import shutil
import stat
import tarfile
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

import tqdm

from doap_tf.errors import InputError
from doap_tf.files import write_atomically

_ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,  # zipfile's answer to encryption and unknown compression
    ValueError,
    LookupError,  # its answer to damaged names
)
# What the system says to names and places that no sound archive has; bz2 gives no number.
_DAMAGE_NUMBERS = (
    None,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ENOTDIR,
)
_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class OriginalFile:
    """One file that a dataset is distributed as, and the addresses it was published at."""

    name: str
    urls: tuple[str, ...]

    @property
    def stem(self) -> str:
        """The name without the suffix of an archive."""
        suffix = next(filter(self.name.endswith, _ARCHIVE_SUFFIXES), "")
        return self.name.removesuffix(suffix)

    @property
    def packed(self) -> bool:
        """Whether the file is an archive, by its name."""
        return self.name.endswith(_ARCHIVE_SUFFIXES)

    def find(self, folder: pathlib.Path) -> pathlib.Path | None:
        """The file in a folder; mirrors pack archives anew, so any kind of archive is taken."""
        names = [self.name, *(self.stem + suffix for suffix in _ARCHIVE_SUFFIXES)]
        return next((folder / name for name in names if (folder / name).is_file()), None)


@dataclasses.dataclass(frozen=True)
class Original:
    """How a dataset is distributed: its files, and the folder that they unpack to.

    Attributes:
        files: archives, or plain files.
        folder: the name of the unpacked folder, if it lies among others.
        holds: whether a folder is the unpacked dataset.
    """

    files: tuple[OriginalFile, ...]
    folder: str
    holds: Callable[[pathlib.Path], bool]


def find_folder(
    place: pathlib.Path, holds: Callable[[pathlib.Path], bool], depth: int = 2
) -> pathlib.Path | None:
    """The folder nearest below `place` (itself included) that `holds` says yes to."""
    level = [place] if place.is_dir() else []
    for _ in range(depth + 1):
        if found := next(filter(holds, level), None):
            return found
        level = sorted(child for folder in level for child in folder.iterdir() if child.is_dir())
    return None


def _is_archive(path: pathlib.Path) -> bool:
    try:
        return path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path))
    except (*_DAMAGE, OSError):
        return False


def _members(archive: pathlib.Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields name and contents of every file of an archive; refuses links and devices."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                kind = stat.S_IFMT(info.external_attr >> 16)
                if info.is_dir():
                    continue
                if kind not in (0, stat.S_IFREG):
                    raise InputError(f"{archive} holds {info.filename!r}, which is no plain file")
                with packed.open(info) as contents:
                    yield info.filename, contents
    else:
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isdir():
                    continue
                plain = tar.extractfile(member) if member.isreg() else None
                if plain is None:
                    raise InputError(f"{archive} holds {member.name!r}, which is no plain file")
                with plain:
                    yield member.name, plain
            # gzip's checksum stands at the end and is compared only by reading on to it.
            while tar.fileobj is not None and tar.fileobj.read(_BLOCK):
                pass


def extract(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks a zip or tar archive into a folder and never writes outside it."""
    if not _is_archive(archive):
        raise InputError(f"{archive} is no zip or tar archive; fetch it again")
    try:
        members = tqdm.tqdm(_members(archive), f"unpacking {archive.name}", unit="file")
        for name, contents in members:
            parts = pathlib.PurePosixPath(name.replace("\\", "/"))
            if parts.is_absolute() or ".." in parts.parts or ":" in name:
                raise InputError(f"{archive} holds {name!r}, a path outside the archive")
            target = folder / parts
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                shutil.copyfileobj(contents, file, _BLOCK)
    except InputError:
        raise
    except (*_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _DAMAGE_NUMBERS:
            raise  # a full disk, for one
        raise InputError(f"{archive} is damaged ({error}); fetch it again") from error


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks an archive into a new folder, without the folder that may wrap all its contents."""
    shutil.rmtree(folder, ignore_errors=True)
    extract(archive, folder)
    contents = list(folder.iterdir()) if folder.is_dir() else []
    if len(contents) == 1 and contents[0].is_dir():
        wrapped = folder.with_name(folder.name + ".wrapped")
        folder.rename(wrapped)
        (wrapped / contents[0].name).rename(folder)
        wrapped.rmdir()


def open_source(
    original: Original, source: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path | None:
    """The unpacked dataset that `source` holds, or None.

    Args:
        original: the dataset.
        source: the unpacked folder, a folder around it, an archive, or a folder with the archives.
        scratch: where archives are unpacked.
    """
    if source.is_file():
        unpack(source, scratch / OriginalFile(source.name, ()).stem)
        return find_folder(scratch, original.holds)
    return find_folder(source, original.holds) or _unpack_all(original, source, scratch)


def find_original(
    original: Original, place: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path | None:
    """Like `open_source` for a folder that many datasets share: only known names count there."""
    if original.holds(place):
        return place
    folder = find_folder(place / original.folder, original.holds, depth=1)
    return folder or _unpack_all(original, place, scratch)


def _unpack_all(
    original: Original, place: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path | None:
    for file in original.files:
        archive = file.find(place)
        if archive and _is_archive(archive):
            unpack(archive, scratch / file.stem)
    return find_folder(scratch, original.holds)


def _download(url: str, path: pathlib.Path) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "doap_tf"})
    with (
        urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response,
        path.open("wb") as file,
    ):
        size = int(response.headers.get("Content-Length") or 0)
        with tqdm.tqdm(desc=url, total=size or None, unit="B", unit_scale=True) as progress:
            while block := response.read(_BLOCK):
                progress.update(file.write(block))
    if size and path.stat().st_size != size:
        raise InputError(f"{path.stat().st_size} of {size} bytes arrived")


def _fetch(file: OriginalFile, downloads: pathlib.Path, scratch: pathlib.Path) -> None:
    """Downloads a file from the first mirror that gives it whole, and unpacks it if packed."""
    failures = []
    for url in file.urls:
        try:
            with write_atomically(downloads / file.name) as partial:
                _download(url, partial)
                # Inside, because dead links often give a web page instead of the archive.
                if file.packed:
                    unpack(partial, scratch / file.stem)
            return
        except (OSError, http.client.HTTPException, InputError) as error:
            failures.append(f"{url} ({error})")
    raise InputError(f"no mirror gives {file.name}: {'; '.join(failures) or 'none is known'}")


def fetch_original(
    original: Original, downloads: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path:
    """Downloads what is not among the downloads yet, and gives the unpacked folder.

    Files appear in `downloads` whole or not at all, so that an interrupted call can be repeated.
    """
    for file in original.files:
        if not (downloads / file.name).is_file():
            _fetch(file, downloads, scratch)
        elif file.packed:
            unpack(downloads / file.name, scratch / file.stem)
    folder = find_folder(scratch, original.holds) or find_folder(downloads, original.holds)
    if folder is None:
        raise InputError(
            f"the files in {downloads} are not what they should be; fetch them by hand"
        )
    return folder


def fingerprint(path: pathlib.Path) -> str:
    """A hash of a file, or of all files below a folder, that is quick on gigabytes.

    It covers names, sizes and both ends of every file: archives keep their checksums at the end.
    """
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        size = file.stat().st_size
        name = "" if file == path else file.relative_to(path).as_posix()
        digest.update(f"{name}\0{size}\0".encode())
        with file.open("rb") as contents:
            digest.update(contents.read(4096))
            contents.seek(max(size - 4096, 0), os.SEEK_SET)
            digest.update(contents.read(4096))
    return digest.hexdigest()
