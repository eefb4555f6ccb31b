import pytest

from doap_tf.errors import InputError
from doap_tf.readers.hpatches_splits import split_sequences


def test_splits_have_the_benchmark_s_sizes():
    assert [len(split_sequences(split)) for split in ("a", "b", "c")] == [40, 40, 40]
    assert [len(split_sequences(split)) for split in ("illum", "view", "full")] == [57, 59, 116]
    for split in ("a", "b", "c"):
        train, test = set(split_sequences(split, "train")), set(split_sequences(split))
        assert len(train) == 76 and train | test == set(split_sequences("full"))


@pytest.mark.parametrize(
    ("split", "part", "message"),
    [("d", "test", "known are a, b, c"), ("full", "train", "has no part 'train'; it has test")],
)
def test_unknown_splits_are_named(split, part, message):
    with pytest.raises(InputError, match=message):
        split_sequences(split, part)
