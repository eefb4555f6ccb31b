import numpy as np
import tensorflow_datasets as tfds

from doap_tf.datasets.rome_patches import rome_patches_dataset_builder
from tests import layouts


class RomePatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = rome_patches_dataset_builder.Builder
    SPLITS = {"train": 2, "test": 2}  # noqa: RUF012


def test_groups_are_whole_and_in_order(tmp_path):
    patches = layouts.write_rome(tmp_path / "source")
    builder = rome_patches_dataset_builder.Builder(
        data_dir=tmp_path / "data", source=tmp_path / "source"
    )
    builder.download_and_prepare()
    for half in ("train", "test"):
        examples = list(builder.as_dataset(split=half).as_numpy_iterator())
        assert [example["group"] for example in examples] == list(range(1, 9))
        np.testing.assert_array_equal(
            np.stack([example["patches"][..., 0] for example in examples]), patches[half]
        )
