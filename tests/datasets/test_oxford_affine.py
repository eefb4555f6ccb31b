import cv2
import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.datasets.oxford_affine import oxford_affine_dataset_builder
from tests import layouts


class OxfordAffineTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = oxford_affine_dataset_builder.Builder
    SPLITS = {"test": 2}  # noqa: RUF012


@pytest.mark.parametrize(
    ("config", "layout", "sequences"),
    [
        ("oxford", "oxford", ("boat", "graf")),
        ("hpatches_sequences", "hpatches", ("i_dome", "v_wall")),
    ],
)
def test_images_and_homographies_are_the_files(tmp_path, config, layout, sequences):
    folder = tmp_path / "source"
    homographies = layouts.write_image_sequences(folder, sequences, layout)
    builder = oxford_affine_dataset_builder.Builder(
        config=config, data_dir=tmp_path / "data", source=folder
    )
    builder.download_and_prepare()
    examples = list(builder.as_dataset(split="test").as_numpy_iterator())
    assert [example["name"].decode() for example in examples] == list(sequences)
    for example in examples:
        name = example["name"].decode()
        np.testing.assert_array_equal(example["homographies"], homographies[name])
        for number, image in example["images"].items():
            (path,) = (folder / name).glob(f"*{number}.p?m")
            np.testing.assert_array_equal(image[..., ::-1], cv2.imread(str(path)))
