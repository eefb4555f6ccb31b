"""The benchmark's splits as read instructions over the prepared sequences."""

from typing import Any

from doap_tf.errors import InputError
from doap_tf.readers.hpatches_splits import split_sequences

ARCHIVE = "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/hpatches-release.zip"
_NAMED = 3  # of the missing sequences, so that the message stays short


def read_instruction(split: str, part: str, builder: Any) -> str:
    """The TFDS read instruction of a benchmark split, such as `"i_ajuntament+v_courses"`.

    Args:
        split: see `split_sequences`.
        part: train or test.
        builder: the prepared hpatches builder.
    """
    sequences = split_sequences(split, part)
    prepared = builder.info.splits
    missing = [sequence for sequence in sequences if sequence not in prepared]
    if missing:
        names = ", ".join([*missing[:_NAMED], *["…"] * (len(missing) > _NAMED)])
        raise InputError(
            f"{len(missing)} of the {len(sequences)} sequences of HPatches split {split!r}, part "
            f"{part!r}, are not prepared in {builder.data_dir}: {names}; prepare the whole of "
            f"{ARCHIVE} in another data_dir, or take the split 'all'"
        )
    return "+".join(sequences)
