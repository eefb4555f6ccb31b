import h5py
import numpy as np
import pytest
import scipy.io

from doap_tf.errors import InputError
from doap_tf.readers.matlab import read_matlab

OTHERS = {"text": "hello", "cell": np.array([1, "a"], object), "complex": np.array([1j])}


def arrays():
    rng = np.random.default_rng(0)
    kinds = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
    return {f"a_{kind}": rng.integers(0, 100, (3, 4, 5)).astype(kind) for kind in kinds}


def write_version_5(path):
    scipy.io.savemat(path, arrays() | OTHERS)


def write_compressed(path):
    scipy.io.savemat(path, arrays() | OTHERS, do_compression=True)


def write_version_7_3(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays().items():
            file.create_dataset(name, data=array.T)
        file.create_group("struct")


WRITERS = pytest.mark.parametrize("write", [write_version_5, write_compressed, write_version_7_3])


@WRITERS
def test_all_numeric_arrays_are_read(tmp_path, write):
    write(tmp_path / "a.mat")
    read = read_matlab(tmp_path / "a.mat")
    assert sorted(read) == sorted(arrays())
    for name, array in arrays().items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@WRITERS
def test_a_file_cut_short_is_named(tmp_path, write):
    path = tmp_path / "a.mat"
    write(path)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"a\.mat .* damaged"):
        read_matlab(path)


def test_a_missing_file_and_a_web_page_are_named(tmp_path):
    with pytest.raises(InputError, match=r"a\.mat is missing"):
        read_matlab(tmp_path / "a.mat")
    (tmp_path / "a.mat").write_text("<html>gone</html>")
    with pytest.raises(InputError, match=r"a\.mat is not a MATLAB file"):
        read_matlab(tmp_path / "a.mat")
