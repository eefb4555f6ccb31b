import h5py
import numpy as np
import pytest
import scipy.io

from doap_tf.errors import InputError
from doap_tf.readers import read_rome_half
from tests import layouts

PATCHES, LABELS = "patch_retrieval_Rome_test.mat", "patch_retrieval_Rome_test_labels.mat"


@pytest.mark.parametrize("matlab", ["5", "7.3"])
def test_both_versions_of_matlab_files_give_the_groups(tmp_path, matlab):
    written = layouts.write_rome(tmp_path, matlab=matlab)
    assert h5py.is_hdf5(tmp_path / PATCHES) == (matlab == "7.3")
    for half in ("train", "test"):
        patches, labels = read_rome_half(tmp_path, half)
        assert labels.tolist() == list(range(1, 9))
        np.testing.assert_array_equal(patches, written[half])


@pytest.mark.parametrize(
    "arrange",
    [
        lambda patches: patches,
        lambda patches: patches.transpose(1, 2, 0),
        lambda patches: np.repeat(patches[..., np.newaxis], 3, axis=-1),
        lambda patches: np.repeat(patches.transpose(1, 2, 0)[:, :, np.newaxis], 3, axis=2),
        lambda patches: patches / 255.0,
        lambda patches: patches.astype(np.float32),
    ],
    ids=["N,51,51", "51,51,N", "N,51,51,3", "51,51,3,N", "0 to 1", "float"],
)
def test_patches_may_be_stored_in_any_order_of_axes(tmp_path, arrange):
    expected = layouts.write_rome(tmp_path)["test"]
    variables = {"size": np.arange(3), "X": arrange(expected.reshape(-1, 51, 51))}
    scipy.io.savemat(tmp_path / PATCHES, variables)
    scipy.io.savemat(tmp_path / LABELS, {"y": np.repeat(np.arange(8), 10), "n": 8})
    patches, labels = read_rome_half(tmp_path, "test")
    np.testing.assert_array_equal(patches, expected)
    assert labels.tolist() == list(range(8))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / PATCHES).unlink(), f"{PATCHES} is missing"),
        (
            lambda f: (f / PATCHES).write_bytes(b"<html>gone</html>"),
            f"{PATCHES} is not a MATLAB file",
        ),
        (
            lambda f: (f / PATCHES).write_bytes((f / PATCHES).read_bytes()[:5000]),
            f"{PATCHES} is not a MATLAB file",
        ),
        (
            lambda f: scipy.io.savemat(f / PATCHES, {"X": np.zeros((80, 50, 50))}),
            r"no array of 51×51 patches .* X \(80, 50, 50\)",
        ),
        (
            lambda f: scipy.io.savemat(f / PATCHES, {"X": np.full((80, 51, 51), np.nan)}),
            "no array of 51×51 patches",
        ),
        (
            lambda f: scipy.io.savemat(f / LABELS, {"labels": np.arange(79)}),
            r"no labels for 80 patches.* labels \(1, 79\)",
        ),
        (
            lambda f: scipy.io.savemat(f / LABELS, {"y": np.repeat(np.arange(2), [9, 71])}),
            "9 patches with label 0; every group has 10",
        ),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage, message):
    layouts.write_rome(tmp_path)
    damage(tmp_path)
    with pytest.raises(InputError, match=message):
        read_rome_half(tmp_path, "test")
