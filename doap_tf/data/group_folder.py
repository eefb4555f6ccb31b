"""Folders of patch groups: their files, read and written whole or not at all."""

import contextlib
import io
import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from doap_tf import files
from doap_tf.errors import InputError

FORMAT = 1
PATCHES_FILE = "patches.npy"
MINED_FILE = "mined.npz"
_LABELS_FILE = "labels.npy"
_DESCRIPTION_FILE = "groups.json"


@contextlib.contextmanager
def open_group_folder(directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a folder to write patch groups to; a disk that refuses becomes an InputError.

    It replaces a folder of patch groups or an empty one, nothing else.
    """
    try:
        replaceable = not directory.exists() or (directory / _DESCRIPTION_FILE).exists()
        if not replaceable and (directory.is_file() or any(directory.iterdir())):
            raise InputError(
                f"{directory} exists and holds no patch groups: choose another folder."
            )
        with files.write_directory_atomically(directory) as folder:
            yield folder
    except OSError as error:
        raise InputError(
            f"cannot write patch groups to {directory}: {error.strerror or error}; "
            "make room or choose a folder that can be written to."
        ) from error


def write_groups(
    folder: pathlib.Path,
    groups: Iterable[tuple[np.ndarray, str | None]],
    size: int,
    source: str,
    magnification: float | None = None,
) -> None:
    """Writes groups one by one, so that memory never holds them all.

    Args:
        folder: What `open_group_folder` yields.
        groups: Patches uint8 [n, S, S] and the name of the sequence, or None, of each group.
        size: S.
        source: What the patches come from, for records.
        magnification: What they were cut at, if that is known.
    """
    sizes: list[int] = []
    sequences: list[int] = []
    numbers: dict[str, int] = {}
    with (folder / PATCHES_FILE).open("wb") as file:
        # NumPy pads headers so that an array may grow: this one is as long as the final one.
        file.write(_npy_header((0, size, size)))
        for patches, name in groups:
            file.write(patches.tobytes())
            sizes.append(len(patches))
            sequences.append(-1 if name is None else numbers.setdefault(name, len(numbers)))
        file.seek(0)
        file.write(_npy_header((sum(sizes), size, size)))
    group = np.repeat(np.arange(len(sizes)), sizes)
    write_tables(folder, group, np.repeat(sequences, sizes), list(numbers), source, magnification)


def write_tables(
    folder: pathlib.Path,
    group: np.ndarray,
    sequence: np.ndarray,
    sequence_names: Sequence[str],
    source: str,
    magnification: float | None = None,
) -> None:
    """Writes what a folder holds beside patches and mined labels; the arguments are its fields."""
    labels = np.stack([group, sequence, np.full(len(group), -1)], axis=1)
    np.save(folder / _LABELS_FILE, labels.astype(np.int32))
    description = {
        "format": FORMAT,
        "source": source,
        "magnification": magnification,
        "sequence_names": list(sequence_names),
    }
    (folder / _DESCRIPTION_FILE).write_text(json.dumps(description, indent=1))


def write_mined_labels(path: pathlib.Path, cluster: np.ndarray, far_apart: np.ndarray) -> None:
    """Writes `cluster` and `far_apart` of patch groups."""
    with files.write_atomically(path) as temporary:
        np.savez_compressed(temporary, cluster=cluster, far_apart=far_apart)


def read_mined_labels(path: pathlib.Path) -> dict[str, Any]:
    """Returns the `cluster` and `far_apart` that `write_mined_labels` wrote, by name."""
    try:
        with np.load(path) as mined:
            return {name: mined[name] for name in ("cluster", "far_apart")}
    except Exception as error:  # NumPy raises many kinds for a damaged file
        raise InputError(f"{path} cannot be read ({error}): remove it to mine again.") from error


def read_group_folder(directory: pathlib.Path) -> dict[str, Any]:
    """Returns the fields of patch groups, by name; patches are memory-mapped."""
    description = json.loads((directory / _DESCRIPTION_FILE).read_text())
    if description["format"] != FORMAT:
        raise InputError(
            f"the format is {description['format']!r}, not {FORMAT}: build them again."
        )
    labels = np.load(directory / _LABELS_FILE)
    fields = {
        "patches": np.load(directory / PATCHES_FILE, mmap_mode="r"),
        "group": labels[:, 0],
        "sequence": labels[:, 1],
        "cluster": labels[:, 2],
        "sequence_names": tuple(description["sequence_names"]),
        "source": description["source"],
        "magnification": description.get("magnification"),
        "directory": directory,
    }
    if (directory / MINED_FILE).exists():
        fields |= read_mined_labels(directory / MINED_FILE)
    elif (directory / "far_apart.npy").exists():  # where earlier versions kept the table
        fields["far_apart"] = np.load(directory / "far_apart.npy")
    return fields


@contextlib.contextmanager
def named_in_errors(directory: pathlib.Path) -> Iterator[None]:
    """Turns whatever reading a folder of patch groups raises into an InputError that names it."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{directory}: {error}") from error
    except FileNotFoundError as error:
        raise InputError(f"no patch groups in {directory}: {error.filename} is missing.") from error
    except PermissionError as error:
        raise InputError(f"{error.filename} cannot be read: {error.strerror}.") from error
    except Exception as error:  # NumPy raises many kinds for a damaged file
        raise InputError(
            f"the patch groups in {directory} cannot be read ({error}): "
            "remove the folder and build it again."
        ) from error


def _npy_header(shape: tuple[int, ...]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": shape}
    )
    return header.getvalue()
