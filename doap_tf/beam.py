"""Apache Beam: files in the file systems that it knows, and work for its workers."""

import contextlib
import functools
import glob
import io
import itertools
import json
import logging
import os
import pathlib
import re
import shlex
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from doap_tf.errors import InputError, error_line, one_line
from doap_tf.files import write_atomically
from doap_tf.parallel import one_core
from doap_tf.readers.images import IMAGE_SUFFIXES

logging.disable(logging.WARNING)  # Beam warns that it lacks what only Google's cloud needs
try:
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions
except ModuleNotFoundError as error:
    raise InputError(
        "Apache Beam is not installed: install it with `pip install '.[beam]'`."
    ) from error
finally:
    logging.disable(logging.NOTSET)

_LOG_LEVEL = "default_sdk_harness_log_level"
_last_copy = threading.local()

Item = TypeVar("Item")
Result = TypeVar("Result")


class BeamPath(os.PathLike):
    """A file that is copied to this machine when it is read; a thread keeps its last copy only."""

    def __init__(self, path: str):
        self._path = path

    def __str__(self) -> str:
        return self._path

    def __fspath__(self) -> str:
        if getattr(_last_copy, "file", None) is not self:
            _last_copy.copy, _last_copy.file = LocalCopy(self._path), self
        return _last_copy.copy.path


class LocalCopy:
    """A copy of a file, at `path` on this machine for as long as this object lives."""

    def __init__(self, path: str):
        descriptor, self.path = tempfile.mkstemp()
        weakref.finalize(self, pathlib.Path(self.path).unlink, missing_ok=True)
        with open(descriptor, "wb") as target, FileSystems.open(path) as source:
            shutil.copyfileobj(source, target)


def find_images(patterns: str) -> dict[str, BeamPath]:
    """Does what `doap_tf.matching.find_images` does, but patterns have no braces."""
    folders: list[str] = []
    files: set[str] = set()
    for pattern in patterns.split(","):
        fixed = re.split(r"[*?[]", pattern)[0]
        folder = pattern.rstrip("/")
        below = find(f"{folder}/**") if fixed == pattern else []
        images = [path for path in below if path.lower().endswith(tuple(IMAGE_SUFFIXES))]
        if not images:
            images, folder = find(pattern), fixed.rpartition("/")[0]
        if not images:
            raise InputError(f"no image file matches {pattern!r}.")
        folders.append(folder)
        files.update(images)
    levels = zip(*(folder.split("/") for folder in folders), strict=False)
    shared = itertools.takewhile(lambda names: len(set(names)) == 1, levels)
    start = sum(len(names[0]) + 1 for names in shared)
    return {path[start:]: BeamPath(path) for path in sorted(files)}


def find(pattern: str) -> list[str]:
    """Returns the files that match a pattern, in order."""
    try:
        (result,) = FileSystems.match([pattern])
    except (OSError, ValueError) as error:
        raise InputError(f"Beam cannot list {pattern}: {one_line(error)}") from error
    return sorted(file.path for file in result.metadata_list)


@contextlib.contextmanager
def write_whole(path: str) -> Iterator[pathlib.Path]:
    """Does what `doap_tf.files.write_atomically` does, in any file system."""
    if FileSystems.get_scheme(path) is None:
        with write_atomically(path) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory() as folder:
        temporary = pathlib.Path(folder) / "written"
        yield temporary
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        with temporary.open("rb") as source, FileSystems.create(partial) as target:
            shutil.copyfileobj(source, target)
    FileSystems.rename([partial], [path])


def read_bytes(path: str) -> bytes:
    """Returns the contents of a file."""
    with FileSystems.open(path) as file:
        return file.read()


def delete(path: str) -> None:
    """Deletes a file."""
    # Beam takes paths of this machine for patterns.
    FileSystems.delete([path if FileSystems.get_scheme(path) else glob.escape(path)])


def pipeline_options(options: str) -> PipelineOptions:
    """Returns options as on a command line, or raises an InputError if Beam does not take them."""
    complaint = io.StringIO()
    try:
        with contextlib.redirect_stderr(complaint):
            quiet = {} if _LOG_LEVEL in options else {_LOG_LEVEL: "WARNING"}
            parsed = PipelineOptions(shlex.split(options), **quiet)
            parsed.get_all_options()
            beam.Pipeline(options=parsed)
    except (SystemExit, ValueError, ImportError, AttributeError) as error:
        reason = complaint.getvalue().strip().rpartition("\n")[2] or error_line(error)
        raise InputError(
            f"Beam does not take the options {options!r}: {reason.rstrip('.')}."
        ) from error
    return parsed


def run(function: Callable[[Any], None], items: Iterable[object], options: PipelineOptions) -> None:
    """Lets workers call a function, which can be pickled, with every item; waits for them."""
    items = list(items)
    if not items:
        return
    try:
        pipeline = beam.Pipeline(options=options)
        work = functools.partial(_on_one_core, function)
        _ = pipeline | beam.Create(items) | "work" >> beam.Map(work)
        pipeline.run().wait_until_finish()
    except (RuntimeError, OSError) as error:
        raise InputError(
            f"Beam's workers failed ({error_line(error)}); finished work is kept: run the same "
            "command again."
        ) from error


def _on_one_core(function: Callable[[Any], None], item: Any) -> None:
    # A worker has a thread for each of its cores.
    with one_core():
        function(item)


def beam_map(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    result_type: Callable[..., Result],
    options: str,
    folder: str,
) -> Iterator[Result]:
    """Like `map`, in order, computed by Beam's workers.

    Args:
        function: Can be pickled; what it raises as an InputError is raised here.
        items: Its arguments.
        result_type: What it returns, a named tuple of arrays and values for JSON.
        options: Beam's options as on a command line.
        folder: For the results, which stay there and are not computed again; all workers see it
            under this path.
    """
    paths = [f"{folder}/{number:09d}.npz" for number in range(len(items))]
    work = functools.partial(_write_result, function)
    run(work, zip(paths, items, strict=True), pipeline_options(options))
    for path in paths:
        try:
            with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
                fields = dict(arrays)
            fields |= json.loads(fields.pop("json").item())
        except Exception as error:  # NumPy and zipfile raise many kinds for damaged bytes
            raise InputError(f"{path} is not a result of Beam's workers: delete it.") from error
        if "error" in fields:
            delete(path)  # it may be another after a remedy
            raise InputError(fields["error"])
        yield result_type(**fields)


def _write_result(function: Callable[[Any], Any], element: tuple[str, Any]) -> None:
    path, item = element
    if FileSystems.exists(path):
        return
    try:
        fields = function(item)._asdict()
    except InputError as error:
        fields = {"error": str(error)}
    arrays = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    values = {name: value for name, value in fields.items() if name not in arrays}
    with write_whole(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays, json=np.array(json.dumps(values)))  # type: ignore[arg-type]
