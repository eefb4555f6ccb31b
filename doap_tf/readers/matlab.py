"""Reading the numeric arrays of MATLAB files, version 5 or 7.3."""

import os
import pathlib
import struct
import zlib
from typing import Any

import numpy as np

from doap_tf.errors import InputError

_HEADER = 128
_ELEMENT_DTYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_MATRIX, _COMPRESSED = 14, 15
_CLASS_DTYPES = {
    6: "f8",
    7: "f4",
    8: "i1",
    9: "u1",
    10: "i2",
    11: "u2",
    12: "i4",
    13: "u4",
    14: "i8",
    15: "u8",
}
_COMPLEX_FLAG = 0x0800
_MOST_DEFLATED = 1032  # bytes that DEFLATE can make of one


def read_matlab(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The real numeric arrays of a MATLAB file, with MATLAB's order of axes; others are left out.

    Version 5 is read here and not with SciPy, which crashes the process on damaged files.
    """
    # Imported here because it is slow to import and needed for this one format.
    import h5py

    path = pathlib.Path(path)
    try:
        if h5py.is_hdf5(path):
            with h5py.File(path) as file:
                # MATLAB writes columns first and HDF5 declares rows first: the axes are reversed.
                arrays = {
                    name: _stored(item).T
                    for name, item in file.items()
                    if isinstance(item, h5py.Dataset)
                }
        else:
            arrays = _read_version_5(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read MATLAB file {path}: {error.strerror or error}") from error
    # Damaged files raise nearly anything in h5py, KeyError and RuntimeError included.
    except Exception as error:
        raise InputError(
            f"{path} is no MATLAB file of version 5 or 7.3, or a damaged one ({error!r}); "
            "fetch it again"
        ) from error
    return {name: array for name, array in arrays.items() if array.dtype.kind in "iuf"}


def _stored(dataset: Any) -> np.ndarray:
    """The values of an HDF5 dataset that has them: headers alone would be filled up with zeros."""
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored * _MOST_DEFLATED:
        raise ValueError(f"{dataset.name} claims {dataset.nbytes} bytes and has {stored}")
    return dataset[()]


def _read_version_5(data: bytes) -> dict[str, np.ndarray]:
    order = {b"IM": "<", b"MI": ">"}.get(data[_HEADER - 2 : _HEADER])
    if order is None or not data.startswith(b"MATLAB 5.0"):
        raise ValueError("no header of version 5 or 7.3")
    arrays = {}
    position = _HEADER
    while position < len(data):
        kind, contents, position = _read_element(memoryview(data), position, order)
        if kind == _COMPRESSED:
            kind, contents, _ = _read_element(memoryview(zlib.decompress(contents)), 0, order)
        if kind == _MATRIX and (named := _read_matrix(contents, order)):
            arrays[named[0]] = named[1]
    return arrays


def _read_element(data: memoryview, position: int, order: str) -> tuple[int, memoryview, int]:
    """The kind and contents of the element at a position, and the position after it."""
    kind, size = struct.unpack_from(order + "II", data, position)
    start, end = position + 8, position + 8 + size
    if kind >> 16:  # up to four bytes are packed into the tag itself
        kind, size, start, end = kind & 0xFFFF, kind >> 16, position + 4, position + 8
    elif kind != _COMPRESSED:
        end += -size % 8
    contents = data[start : start + size]
    if len(contents) != size:
        raise ValueError(f"an element of {size} bytes ends after {len(contents)}")
    return kind, contents, end


def _read_numbers(data: memoryview, position: int, order: str) -> tuple[np.ndarray, int]:
    kind, contents, position = _read_element(data, position, order)
    if kind not in _ELEMENT_DTYPES:
        raise ValueError(f"an element of kind {kind} in place of numbers")
    return np.frombuffer(contents, order + _ELEMENT_DTYPES[kind]), position


def _read_matrix(data: memoryview, order: str) -> tuple[str, np.ndarray] | None:
    """Name and values of a full real numeric array; None for anything else."""
    flags, position = _read_numbers(data, 0, order)
    kind = _CLASS_DTYPES.get(int(flags[0]) & 0xFF)
    if kind is None or flags[0] & _COMPLEX_FLAG:
        return None
    shape, position = _read_numbers(data, position, order)
    name, position = _read_numbers(data, position, order)
    values, _ = _read_numbers(data, position, order)
    if (shape < 0).any():
        raise ValueError(f"an array of shape {shape.tolist()}")
    return name.tobytes().decode("ascii"), values.astype(kind).reshape(shape.tolist(), order="F")
