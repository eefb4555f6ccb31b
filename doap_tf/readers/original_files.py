"""Getting a dataset's original files: from a folder, from archives, or from a mirror."""

import dataclasses
import errno
import functools
import hashlib
import pathlib
import shutil
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence

from absl import logging

from doap_tf.errors import InputError
from doap_tf.files import contents_sha256, write_atomically
from doap_tf.progress import progress

_ARCHIVE_SUFFIXES = (".gz", ".tar", ".tgz", ".zip")
_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Original:
    """How a dataset is distributed.

    Attributes:
        files: The addresses of every file by its name; archives, or plain files.
        folder: The name of the unpacked folder.
        holds: Whether a folder is the unpacked dataset.
        sha256: The SHA-256 of files, by name, as far as their publishers give it.
    """

    files: Mapping[str, Sequence[str]]
    folder: str
    holds: Callable[[pathlib.Path], bool]
    sha256: Mapping[str, str] = dataclasses.field(default_factory=dict)


def where_to_get(original: Original) -> str:
    """Returns the address of a dataset's only file, or the names of its files and their folder."""
    if len(original.files) == 1:
        (urls,) = original.files.values()
        return " or ".join(urls)
    folders = [url.removesuffix(name) for name, urls in original.files.items() for url in urls]
    return f"{', '.join(original.files)} from {' or '.join(dict.fromkeys(folders))}"


def find_folder(original: Original, place: pathlib.Path, depth: int = 2) -> pathlib.Path | None:
    """Returns the folder nearest below `place` (itself included) that holds the dataset."""
    level = [place] if place.is_dir() else []
    for _ in range(depth + 1):
        if unpacked := next(filter(original.holds, level), None):
            return unpacked
        level = sorted(child for folder in level for child in folder.iterdir() if child.is_dir())
    return None


def open_source(
    original: Original, source: pathlib.Path, scratch: pathlib.Path, depth: int = 2
) -> pathlib.Path | None:
    """Returns the unpacked dataset that `source` holds, or None.

    Args:
        original: The dataset.
        source: The unpacked folder, a folder around it, an archive, or a folder of the archives.
        scratch: Where archives are unpacked.
        depth: How far below `source` the unpacked folder may lie.
    """
    if folder := find_folder(original, source, depth):
        return folder
    if source.is_file():
        unpack(source, scratch / _stem(source.name))
    for name in original.files:  # mirrors pack files anew: any kind of archive is taken
        for path in sorted(source.glob(f"{_stem(name)}.*")):
            if path.suffix in _ARCHIVE_SUFFIXES:
                unpack(path, scratch / _stem(name))
    return find_folder(original, scratch)


def find_original(
    original: Original, place: pathlib.Path, scratch: pathlib.Path
) -> pathlib.Path | None:
    """Like `open_source` for a folder that many datasets share: only known names count there."""
    return find_folder(original, place / original.folder, depth=1) or open_source(
        original, place, scratch, depth=0
    )


def unpack(archive: pathlib.Path, folder: pathlib.Path) -> None:
    """Unpacks a zip or tar archive into a new folder, without a single folder around everything."""
    shutil.rmtree(folder, ignore_errors=True)
    whole = folder.with_name(folder.name + ".whole")
    whole.mkdir(parents=True)
    title = f"unpacking {archive.name}"
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(whole, progress(packed.infolist(), title, unit="file"))
        else:
            with tarfile.open(archive) as tar:
                for member in progress(tar, title, unit="file"):
                    _extract(tar, member, whole)
                while tar.fileobj and tar.fileobj.read(_BLOCK):
                    pass  # gzip compares its checksum at the end of the file
    except Exception as error:  # zipfile, tarfile and zlib raise many kinds for damaged archives
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise InputError(
            f"{archive} is not a zip or tar archive, or is damaged; fetch it again, or give the "
            "folder of the unpacked files"
        ) from error
    contents = list(whole.iterdir())
    single = len(contents) == 1 and contents[0].is_dir()
    (contents[0] if single else whole).rename(folder)
    shutil.rmtree(whole, ignore_errors=True)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: pathlib.Path) -> None:
    """Extracts one file or folder, never outside of `folder`."""
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
        return
    # Python before 3.10.12 and 3.11.4.
    inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
    if not inside or not (member.isfile() or member.isdir()):
        raise tarfile.ExtractError(f"{member.name} is a link or lies outside of the archive")
    tar.extract(member, folder)


def download(original: Original, folder: pathlib.Path) -> None:
    """Downloads the files that `folder` lacks, each from the first mirror that has it.

    Files appear whole or not at all, so that an interrupted call can be repeated. A warning names
    what came without a checksum to compare with.
    """
    for name, urls in original.files.items():
        failures: list[str] = []
        for url in urls:
            if (folder / name).is_file():
                break
            try:
                _download(url, folder / name, original.sha256.get(name))
            except Exception as error:  # urllib, http and ssl raise many kinds
                failures.append(f"{url} ({error})")
        if not (folder / name).is_file():
            raise InputError(f"{name} cannot be downloaded: {'; '.join(failures)}")


def _download(url: str, path: pathlib.Path, sha256: str | None) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "doap_tf"})
    with write_atomically(path) as partial:
        with (
            urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as response,
            partial.open("wb") as file,
        ):
            size = int(response.headers.get("Content-Length") or 0)
            with progress(title=url, total=size or None, unit="B", unit_scale=True) as bar:
                while block := response.read(_BLOCK):
                    if bar.n == 0 and block.lstrip().startswith(b"<"):
                        raise InputError("a web page")  # dead links often lead to one
                    file.write(block)
                    bar.update(len(block))
        if size and partial.stat().st_size != size:
            raise InputError(f"{partial.stat().st_size} of {size} bytes arrived")
        received = contents_sha256(partial)
        if sha256 is None:
            logging.warning(
                "%s was not verified: no checksum is published for it; its SHA-256 is %s.",
                url,
                received,
            )
        elif received != sha256:
            raise InputError(f"the SHA-256 is {received}, not {sha256}")


def _stem(name: str) -> str:
    return name.split(".")[0]


def fingerprint(path: pathlib.Path) -> str:
    """Returns a hash of a file, or of the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    for file in progress(files, f"reading {path.name}", unit="file", leave=False):
        name = "" if file == path else file.relative_to(path).as_posix()
        status = file.stat()
        sha256 = _file_sha256(file, status.st_size, status.st_mtime_ns)
        digest.update(f"{name}\0{sha256}".encode())
    return digest.hexdigest()


@functools.cache  # a run asks for the same gigabytes several times
def _file_sha256(path: pathlib.Path, size: int, modified: int) -> str:
    return contents_sha256(path)
