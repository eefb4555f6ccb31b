"""The benchmark's splits as read instructions over the prepared sequences."""

import functools
import json
import pathlib
from typing import Any

from doap_tf.errors import InputError


@functools.cache
def _splits() -> dict[str, dict[str, list[str]]]:
    return json.loads((pathlib.Path(__file__).parent / "splits.json").read_text())


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


def read_instruction(split: str, part: str, builder: Any, allow_missing: bool = False) -> str:
    """The TFDS read instruction of a benchmark split, such as `"i_ajuntament+v_courses"`.

    Args:
        split: see `split_sequences`.
        part: train or test.
        builder: the prepared hpatches builder.
        allow_missing: whether to leave out sequences that were not prepared. Scores on what is
            left are no scores on the split.
    """
    sequences = split_sequences(split, part)
    prepared = builder.info.splits
    missing = [sequence for sequence in sequences if sequence not in prepared]
    if len(missing) == len(sequences) or (missing and not allow_missing):
        raise InputError(
            f"{len(missing)} of the {len(sequences)} sequences of HPatches split {split!r}, part "
            f"{part!r}, are not prepared in {builder.data_dir}: {', '.join(missing)}"
        )
    return "+".join(sequence for sequence in sequences if sequence in prepared)
