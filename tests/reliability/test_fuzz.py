"""Damaged files are refused with an InputError and cost little memory.

A few in every run, hundreds in the slow set, 10,000 by benchmarks/reliability.py.
"""

import pytest

from tests.reliability.fuzzing import fuzz
from tests.reliability.targets import TARGETS

SLOW_READERS = {"keras": 0.08, "weights": 0.3, "flag_files": 0.5}  # share of the others' count
MOST_GROWTH_MB = 256


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused(name, count, tmp_path):
    counts = fuzz(TARGETS[name](), round(count * SLOW_READERS.get(name, 1)), tmp_path, seed=1)
    assert not counts.wrong
    assert counts.refused > 0
    assert counts.growth_mb < MOST_GROWTH_MB
