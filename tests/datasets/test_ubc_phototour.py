import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.datasets.ubc_phototour import ubc_phototour_dataset_builder
from tests import layouts

SCENES = ("liberty", "notredame", "yosemite")


class UbcPhototourTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ubc_phototour_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = SCENES
    SPLITS = {"train": 4}  # noqa: RUF012


class UbcPhototourPairsTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = ubc_phototour_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = tuple(f"{scene}_pairs" for scene in SCENES)
    SPLITS = {"test": 4}  # noqa: RUF012


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A folder with two scenes, and the patches and points of the second."""
    folder = tmp_path_factory.mktemp("ubc")
    layouts.write_ubc(folder / "liberty", groups=5, pairs=4)
    return folder, *layouts.write_ubc(folder / "notredame", seed=1)


def prepared(config, folder, data_dir):
    builder = ubc_phototour_dataset_builder.Builder(config=config, source=folder, data_dir=data_dir)
    builder.download_and_prepare()
    (split,) = builder.info.splits
    return list(builder.as_dataset(split=split).as_numpy_iterator())


def test_every_point_has_its_patches(source, tmp_path):
    folder, patches, points = source
    seen = []
    for example in prepared("notredame", folder, tmp_path):
        np.testing.assert_array_equal(example["patches"][..., 0], patches[example["patch_ids"]])
        assert (points[example["patch_ids"]] == example["point_id"]).all()
        seen.extend(example["patch_ids"])
    assert sorted(seen) == list(range(len(patches)))


def test_pairs_show_their_patches(source, tmp_path):
    folder, patches, points = source
    examples = prepared("notredame_pairs", folder, tmp_path)
    for example in examples:
        ids = example["patch_ids"]
        np.testing.assert_array_equal(example["patches"][..., 0], patches[ids])
        np.testing.assert_array_equal(example["point_ids"], points[ids])
        assert example["match"] == (points[ids[0]] == points[ids[1]])
    assert sum(example["match"] for example in examples) == 20 and len(examples) == 40
