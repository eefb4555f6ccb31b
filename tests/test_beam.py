import pathlib
import pickle
from typing import NamedTuple

import numpy as np
import pytest

from doap_tf.errors import InputError

pytest.importorskip("apache_beam")
from doap_tf.beam import beam_map

OPTIONS = "--runner=DirectRunner"


class Powers(NamedTuple):
    values: np.ndarray
    notes: list[str]


def powers(number):
    if number < 0:
        raise InputError(f"{number} is negative.")
    return Powers(np.array([number, number**2], np.int16), [f"of {number}"] * number)


class Planted:
    """Makes a folder where it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return pathlib.Path.mkdir, (self.folder,)


def test_results_are_those_of_map_and_computed_once(tmp_path):
    for function in (powers, None):
        results = list(beam_map(function, [2, 0, 3], Powers, OPTIONS, str(tmp_path)))
        for result, expected in zip(results, map(powers, [2, 0, 3]), strict=True):
            np.testing.assert_array_equal(result.values, expected.values)
            assert result.values.dtype == np.int16 and result.notes == expected.notes


def test_an_error_of_a_user_is_raised_and_tried_again(tmp_path):
    with pytest.raises(InputError, match=r"^-1 is negative\.$"):
        list(beam_map(powers, [1, -1], Powers, OPTIONS, str(tmp_path)))
    assert [path.name for path in tmp_path.iterdir()] == ["000000000.npz"]


@pytest.mark.parametrize("member", [False, True], ids=["whole file", "array inside"])
def test_a_planted_pickle_is_refused_by_one_line(member, tmp_path):
    planted, path = Planted(tmp_path / "made"), tmp_path / "000000000.npz"
    if member:
        np.savez(path, values=np.array([planted], object), json=np.array("{}"))
    else:
        path.write_bytes(pickle.dumps(planted))
    with pytest.raises(InputError, match=r"000000000\.npz is not a result of .*: delete it\.$"):
        list(beam_map(powers, [1], Powers, OPTIONS, str(tmp_path)))
    assert not planted.folder.exists()
