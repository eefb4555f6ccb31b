import h5py
import numpy as np
import pytest
import scipy.io

from doap_tf.errors import InputError
from doap_tf.readers.matlab import read_matlab
from tests import layouts


@pytest.mark.parametrize("compressed", [False, True])
def test_version_5_is_read_as_scipy_reads_it(tmp_path, compressed):
    rng = np.random.default_rng(0)
    kinds = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"]
    arrays = {f"a_{kind}": rng.integers(0, 100, (3, 4, 5)).astype(kind) for kind in kinds}
    arrays |= {"one": np.array([[7.0]]), "empty": np.zeros((0, 3)), "x": np.arange(3, dtype="i2")}
    others = {"text": "hello", "cell": np.array([1, "a"], object), "complex": np.array([1j])}
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, arrays | others, do_compression=compressed)
    read, expected = read_matlab(path), scipy.io.loadmat(path)
    assert sorted(read) == sorted(arrays)
    for name, array in read.items():
        assert array.dtype == expected[name].dtype
        np.testing.assert_array_equal(array, expected[name])


@pytest.mark.parametrize("version", ["5", "7.3"])
def test_damage_raises_input_errors_only(tmp_path, version):
    layouts.write_rome(tmp_path, groups=1, matlab=version)
    path = tmp_path / "patch_retrieval_Rome_test_labels.mat"
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for position in rng.integers(0, len(whole), 4):
            damaged[position] = rng.integers(256)
        path.write_bytes(damaged[: rng.integers(len(whole) // 2, len(whole) + 1)])
        try:
            read_matlab(path)
        except InputError:
            refused += 1
    assert refused > 100


def test_values_that_are_only_claimed_are_not_made_up(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_dataset("patches", (10**6, 10**6), "u1", chunks=(1, 1))
    with pytest.raises(InputError, match="/patches claims 1000000000000 bytes and has 0"):
        read_matlab(tmp_path / "a.mat")
    with h5py.File(tmp_path / "b.mat", "w") as file:
        file.create_dataset("flat", data=np.zeros((1000, 1000)), compression="gzip")
    np.testing.assert_array_equal(read_matlab(tmp_path / "b.mat")["flat"], np.zeros((1000, 1000)))
