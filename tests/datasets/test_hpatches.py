import pathlib
import tempfile

import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.datasets.hpatches import hpatches_dataset_builder, read_instruction, split_sequences
from doap_tf.errors import InputError
from tests import layouts

# v_courses tests split a, v_there trains it; the last name is none of the benchmark's.
SEQUENCES = ("i_ajuntament", "v_courses", "v_there", "my_street_2")


class HpatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = hpatches_dataset_builder.Builder
    SPLITS = dict.fromkeys(SEQUENCES, 6)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.patches = layouts.write_hpatches(
            pathlib.Path(cls.EXAMPLE_DIR) / "hpatches-release", SEQUENCES, positions=6
        )
        super().setUpClass()

    def prepared(self):
        builder = self.DATASET_CLASS(data_dir=self.tmp_dir, source=self.EXAMPLE_DIR)
        builder.download_and_prepare()
        return builder

    def test_examples_are_in_the_order_of_the_strips(self):
        builder = self.prepared()
        for sequence in SEQUENCES:
            examples = list(builder.as_dataset(split=sequence).as_numpy_iterator())
            assert [example["index"] for example in examples] == list(range(6))
            assert {example["sequence"].decode() for example in examples} == {sequence}
            np.testing.assert_array_equal(
                np.stack([example["patches"][..., 0] for example in examples]),
                self.patches[sequence],
            )

    def test_read_instruction_gives_the_prepared_part_of_a_split(self):
        builder = self.prepared()
        test = read_instruction("a", "test", builder, allow_missing=True)
        assert test == "i_ajuntament+v_courses"
        assert read_instruction("a", "train", builder, allow_missing=True) == "v_there"
        assert read_instruction("illum", "test", builder, allow_missing=True) == "i_ajuntament"
        examples = builder.as_dataset(split=test).as_numpy_iterator()
        names = [example["sequence"].decode() for example in examples]
        assert names == ["i_ajuntament"] * 6 + ["v_courses"] * 6

    def test_read_instruction_refuses_a_split_with_gaps(self):
        with pytest.raises(InputError, match=r"38 of the 40 sequences .* i_resort"):
            read_instruction("a", "test", self.prepared())


def test_splits_have_the_benchmark_s_sizes():
    assert {(split, len(split_sequences(split))) for split in ("a", "b", "c")} == {
        ("a", 40),
        ("b", 40),
        ("c", 40),
    }
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
