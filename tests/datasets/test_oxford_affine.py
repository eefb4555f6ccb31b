import pathlib
import tempfile

import cv2
import numpy as np
import tensorflow_datasets as tfds

from doap_tf.datasets.oxford_affine import oxford_affine_dataset_builder
from tests import layouts


class OxfordAffineTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = oxford_affine_dataset_builder.Builder
    SPLITS = {"test": 2}  # noqa: RUF012

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.folders = {
            "oxford": pathlib.Path(folder.name, "oxford_affine"),
            "hpatches_sequences": pathlib.Path(folder.name, "hpatches-sequences-release"),
        }
        cls.homographies = {
            "oxford": layouts.write_image_sequences(cls.folders["oxford"], ("boat", "graf")),
            "hpatches_sequences": layouts.write_image_sequences(
                cls.folders["hpatches_sequences"], ("i_dome", "v_wall"), layout="hpatches"
            ),
        }
        super().setUpClass()

    def test_images_and_homographies_are_the_files(self):
        for config, folder in self.folders.items():
            builder = self.DATASET_CLASS(config=config, data_dir=self.tmp_dir, source=folder)
            builder.download_and_prepare()
            examples = list(builder.as_dataset(split="test").as_numpy_iterator())
            assert [example["name"].decode() for example in examples] == list(
                self.homographies[config]
            )
            for example in examples:
                name = example["name"].decode()
                np.testing.assert_array_equal(
                    example["homographies"], self.homographies[config][name]
                )
                for number, image in example["images"].items():
                    (path,) = (folder / name).glob(f"*{number}.p?m")
                    np.testing.assert_array_equal(image[..., ::-1], cv2.imread(str(path)))
