"""The splits of HPatches' benchmark, from its file `splits.json`."""

import functools
import json
import pathlib

from doap_tf.errors import InputError


@functools.cache
def _splits() -> dict[str, dict[str, list[str]]]:
    return json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())


def split_sequences(split: str, part: str = "test") -> list[str]:
    """The sequences of a benchmark split, in the benchmark's order.

    Args:
        split: a, b or c, which have 76 sequences for training and 40 for testing, or illum, view
            or full, which have test sequences only.
        part: train or test.
    """
    if split not in _splits():
        raise InputError(f"unknown HPatches split {split!r}; known are {', '.join(_splits())}")
    if part not in _splits()[split]:
        parts = ", ".join(_splits()[split])
        raise InputError(f"HPatches split {split!r} has no part {part!r}; it has {parts}")
    return list(_splits()[split][part])
