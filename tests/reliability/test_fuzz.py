"""Damaged files are refused with an InputError and cost little memory; the script does 10,000."""

import pytest

from tests.reliability.fuzzing import fuzz
from tests.reliability.targets import TARGETS

SLOW_READERS = {"keras": 15, "weights": 60, "flag_files": 100}
MOST_GROWTH_MB = 256


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused(name, tmp_path):
    counts = fuzz(TARGETS[name](), SLOW_READERS.get(name, 200), tmp_path, seed=1)
    assert not counts.wrong
    assert counts.refused > 0
    assert counts.growth_mb < MOST_GROWTH_MB
