import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.datasets.hpatches import hpatches_dataset_builder, read_instruction, splits
from doap_tf.errors import InputError
from tests import layouts

# v_courses tests split a, v_there trains it; the last name is none of the benchmark's.
SEQUENCES = ("i_ajuntament", "v_courses", "v_there", "my_street_2")


class HpatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = hpatches_dataset_builder.Builder
    SPLITS = {"i_ajuntament": 2, "v_courses": 2}  # noqa: RUF012


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The builder, prepared from small strips, and the patches in them."""
    folder = tmp_path_factory.mktemp("hpatches")
    patches = layouts.write_hpatches(folder / "source", SEQUENCES, positions=6)
    builder = hpatches_dataset_builder.Builder(data_dir=folder / "data", source=folder / "source")
    builder.download_and_prepare()
    return builder, patches


def test_examples_are_in_the_order_of_the_strips(written):
    builder, patches = written
    for sequence in SEQUENCES:
        examples = list(builder.as_dataset(split=sequence).as_numpy_iterator())
        assert [example["index"] for example in examples] == list(range(6))
        assert {example["sequence"].decode() for example in examples} == {sequence}
        np.testing.assert_array_equal(
            np.stack([example["patches"][..., 0] for example in examples]), patches[sequence]
        )


def test_read_instruction_gives_the_sequences_of_a_split(written, monkeypatch):
    builder, _ = written
    parts = {"test": ["i_ajuntament", "v_courses"]}
    monkeypatch.setattr(splits, "split_sequences", lambda split, part: parts[part])
    test = read_instruction("a", "test", builder)
    assert test == "i_ajuntament+v_courses"
    examples = builder.as_dataset(split=test).as_numpy_iterator()
    names = [example["sequence"].decode() for example in examples]
    assert names == ["i_ajuntament"] * 6 + ["v_courses"] * 6


def test_a_split_with_gaps_is_refused(written):
    with pytest.raises(InputError, match=r"75 of the 76 sequences of .* 'a', part 'train'"):
        written[0].part_splits("train")
    with pytest.raises(
        InputError,
        match=r"38 of the 40 sequences of HPatches split 'a', .*: \w+, \w+, \w+, …; prepare the "
        r"whole of https://.*/hpatches-release\.zip in another data_dir, or take the split 'all'",
    ):
        read_instruction("a", "test", written[0])
