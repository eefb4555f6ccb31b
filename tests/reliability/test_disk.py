"""On a full or read-only disk a command prints one line and leaves old files whole."""

import pytest
from absl import flags

from tests.reliability import disks


@pytest.fixture(autouse=True)
def parsed_flags():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


@pytest.mark.parametrize("trouble", [disks.full, disks.read_only])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "saved_model" else ())
        for name in disks.WRITERS
    ],
)
def test_one_line_is_printed_and_old_files_are_whole(name, trouble, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    # Once before, because imports and models may need root's permissions.
    disks.WRITERS[name](tmp_path / "before", 0)
    said = disks.refusal(disks.WRITERS[name], folder, trouble)
    assert str(folder) in said
