"""Numeric arrays of MATLAB files, version 5 or 7.3."""

import os

import numpy as np

from doap_tf.errors import InputError


def read_matlab(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the real numeric arrays of a MATLAB file by name, with MATLAB's order of axes."""
    # Imported here because they are slow to import and needed for this one format.
    import h5py
    import scipy.io

    try:
        if h5py.is_hdf5(path):  # version 7.3, with the axes reversed
            with h5py.File(path) as file:
                datasets = {n: item for n, item in file.items() if isinstance(item, h5py.Dataset)}
                arrays = {name: np.asarray(dataset).T for name, dataset in datasets.items()}
        else:
            arrays = scipy.io.loadmat(os.fspath(path))
    except FileNotFoundError as error:
        raise InputError(f"{path} is missing; fetch it again") from error
    except Exception as error:  # SciPy and h5py raise many kinds for damaged files
        raise InputError(
            f"{path} is not a MATLAB file of version 5 or 7.3, or damaged ({error}); fetch it again"
        ) from error
    return {
        name: array
        for name, array in arrays.items()
        if isinstance(array, np.ndarray) and array.dtype.kind in "iuf"
    }
