"""Full and read-only disks, and all writers of files that a user would miss."""

import contextlib
import io
import os
import pathlib
import resource
import subprocess
from collections.abc import Callable, Iterator

import numpy as np

from doap_tf import command_line

_NOBODY = 65534


@contextlib.contextmanager
def full(folder: pathlib.Path, room: int = 64) -> Iterator[None]:
    """Lets no file grow beyond `room` bytes, as if the disk were full; needs no privileges."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))  # Python ignores SIGXFSZ
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@contextlib.contextmanager
def read_only(folder: pathlib.Path) -> Iterator[None]:
    """Lets nothing be made or removed below a folder, not even by root."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path in folders:
            path.chmod(0o755)


@contextlib.contextmanager
def mounted(folder: pathlib.Path, size: str) -> Iterator[None]:
    """Mounts a file system in memory on a folder; needs root."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


def resize(folder: pathlib.Path, size: str) -> None:
    """Changes the size of a mounted file system."""
    subprocess.run(["mount", "-o", f"remount,size={size}", folder], check=True)


@contextlib.contextmanager
def really_full(folder: pathlib.Path) -> Iterator[None]:
    """Fills the mounted file system to the last byte."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def really_read_only(folder: pathlib.Path) -> Iterator[None]:
    """Makes the mounted file system read-only."""
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)


def refusal(
    write: Callable[[pathlib.Path, int], object],
    folder: pathlib.Path,
    trouble: Callable[[pathlib.Path], contextlib.AbstractContextManager],
) -> str:
    """Returns what a command prints if it cannot write; raises unless the old files are whole.

    Args:
        write: Writes the version of a number to a folder; version 1 replaces version 0.
        folder: An empty folder.
        trouble: Makes the disk full or read-only.
    """
    write(folder, 0)
    before = contents(folder)
    said = io.StringIO()
    try:
        with trouble(folder), contextlib.redirect_stderr(said):
            command_line._guarded(lambda _: write(folder, 1), [])
    except SystemExit as end:
        assert end.code == command_line.EXIT_BAD_INPUT
    else:
        raise AssertionError("the write succeeded")
    assert contents(folder) == before
    (line,) = said.getvalue().strip().splitlines()
    assert line.startswith("error: ")
    write(folder, 1)
    assert contents(folder) != before
    return line


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns all files below a folder, and what unfinished writes left."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
        if (path.is_file() and path.name != "filler") or path.name.endswith(".partial")
    }


def _checkpoint(folder: pathlib.Path, version: int) -> None:
    from doap_tf.training.checkpoints import Checkpoints

    arrays = {"weights": np.full(2000, version)}
    Checkpoints(folder / "checkpoints").save(version, arrays, {"step": version})


def _record(folder: pathlib.Path, version: int) -> None:
    from doap_tf.runs import write_record

    write_record(folder, {"version": [version] * 2000})


def _patch_groups(folder: pathlib.Path, version: int) -> None:
    from doap_tf.data import PatchGroups

    patches = np.full([40, 16, 16], version, np.uint8)
    PatchGroups.from_arrays(patches, np.arange(40) // 2).save(folder / "groups")


def _descriptor_cache(folder: pathlib.Path, version: int) -> None:
    from doap_tf.evaluation.descriptor_cache import DescriptorCache
    from doap_tf.evaluation.model import load_model

    patches = np.full([40, 64, 64], 100 + version, np.uint8)
    patches[:, 20:40, 20:40] = version
    DescriptorCache(folder, load_model("rootsift")).describe_array(patches, "toys")


def _report(folder: pathlib.Path, version: int) -> None:
    from doap_tf.evaluation import write_report
    from doap_tf.evaluation.model import load_model
    from doap_tf.evaluation.result import Result

    scores = {"fpr95": 0.1 + version / 10}
    model = load_model("rootsift")
    write_report([Result("ubc", "protocol", "liberty", None, model, scores, scores)], folder)


def _weights(folder: pathlib.Path, version: int) -> None:
    from doap_tf.networks.network_file import write_weights

    write_weights(_network(version), folder / "weights.npz")


def _keras(folder: pathlib.Path, version: int) -> None:
    from doap_tf.files import write_atomically

    with write_atomically(folder / "model.keras") as temporary:
        _network(version).save(temporary)


def _saved_model(folder: pathlib.Path, version: int) -> None:
    from doap_tf.export import export_saved_model

    export_saved_model(_network(version), folder / "model")


def _match_store(folder: pathlib.Path, version: int) -> None:
    from doap_tf.matching import MatchStore

    with MatchStore(folder / "finished.db", {}) as store:
        store.write_features(f"{version}.jpg", "0", _features(version))


def _hloc(folder: pathlib.Path, version: int) -> None:
    from doap_tf.matching import write_hloc

    write_hloc(_Store(version), ["a.jpg"], [], folder)


def _colmap(folder: pathlib.Path, version: int) -> None:
    from doap_tf.matching import write_colmap

    write_colmap(_Store(version), ["a.jpg"], [], folder / "database.db", None)


WRITERS = {
    writer.__name__.strip("_"): writer
    for writer in (
        _checkpoint,
        _record,
        _patch_groups,
        _descriptor_cache,
        _report,
        _weights,
        _keras,
        _saved_model,
        _match_store,
        _hloc,
        _colmap,
    )
}


class _Store:
    """Features as a MatchStore returns them."""

    def __init__(self, version: int):
        self._version = version

    def read_features(self, name: str):
        return _features(self._version)


def _features(version: int):
    from doap_tf.matching import Features

    frames = np.tile(np.array([[2.0, 0, 50], [0, 2, 50]]), (500, 1, 1))
    rows = np.full((500, 128), version, np.float32)
    return Features(frames, np.ones(500, np.float32), rows, 4, (640, 480))


def _network(version: int):
    from doap_tf.networks import DescriptorNetwork

    network = DescriptorNetwork(8, width=0.03, magnification=5.0 + version)
    network.build((None, 32, 32, 1))
    return network
