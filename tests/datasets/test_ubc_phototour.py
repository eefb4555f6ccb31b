import pathlib
import tempfile

import numpy as np
import tensorflow_datasets as tfds

from doap_tf.datasets.ubc_phototour import ubc_phototour_dataset_builder
from tests import layouts


class UbcPhototourTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ubc_phototour_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ("notredame",)
    SPLITS = {"train": 100}  # noqa: RUF012

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.patches, cls.points = layouts.write_ubc(pathlib.Path(cls.EXAMPLE_DIR) / "notredame")
        super().setUpClass()

    def test_every_point_has_its_patches(self):
        builder = self.DATASET_CLASS(
            config="notredame", data_dir=self.tmp_dir, source=self.EXAMPLE_DIR
        )
        builder.download_and_prepare()
        seen = []
        for example in builder.as_dataset(split="train").as_numpy_iterator():
            np.testing.assert_array_equal(
                example["patches"][..., 0], self.patches[example["patch_ids"]]
            )
            assert (self.points[example["patch_ids"]] == example["point_id"]).all()
            seen.extend(example["patch_ids"])
        assert sorted(seen) == list(range(len(self.patches)))


class UbcPhototourPairsTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ubc_phototour_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ("liberty_pairs",)
    SPLITS = {"test": 40}  # noqa: RUF012

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.patches, cls.points = layouts.write_ubc(pathlib.Path(cls.EXAMPLE_DIR) / "liberty")
        super().setUpClass()

    def test_pairs_show_their_patches(self):
        builder = self.DATASET_CLASS(
            config="liberty_pairs", data_dir=self.tmp_dir, source=self.EXAMPLE_DIR
        )
        builder.download_and_prepare()
        examples = list(builder.as_dataset(split="test").as_numpy_iterator())
        for example in examples:
            ids = example["patch_ids"]
            np.testing.assert_array_equal(example["patches"][..., 0], self.patches[ids])
            np.testing.assert_array_equal(example["point_ids"], self.points[ids])
            assert example["match"] == (self.points[ids[0]] == self.points[ids[1]])
        assert sum(example["match"] for example in examples) == 20
