import pathlib
import tempfile

import numpy as np
import tensorflow_datasets as tfds

from doap_tf.datasets.rome_patches import rome_patches_dataset_builder
from tests import layouts


class RomePatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = rome_patches_dataset_builder.Builder
    SPLITS = {"train": 8, "test": 8}  # noqa: RUF012

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.patches = layouts.write_rome(pathlib.Path(cls.EXAMPLE_DIR) / "RomePatches")
        super().setUpClass()

    def test_groups_are_whole_and_in_order(self):
        builder = self.DATASET_CLASS(data_dir=self.tmp_dir, source=self.EXAMPLE_DIR)
        builder.download_and_prepare()
        for half in ("train", "test"):
            examples = list(builder.as_dataset(split=half).as_numpy_iterator())
            assert [example["group"] for example in examples] == list(range(1, 9))
            np.testing.assert_array_equal(
                np.stack([example["patches"][..., 0] for example in examples]), self.patches[half]
            )
