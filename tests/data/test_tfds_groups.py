import pathlib
import tempfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from doap_tf.data import groups_from_tfds
from doap_tf.errors import InputError


class TinyGroups(tfds.core.GeneratorBasedBuilder):
    """Groups in the layouts of the project's builders: HPatches' with names, UBC's without."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [  # noqa: RUF012 (TFDS requires a list)
        tfds.core.BuilderConfig(name="named"),
        tfds.core.BuilderConfig(name="plain"),
        tfds.core.BuilderConfig(name="images"),
    ]
    seed = 0

    def _info(self):
        key = "image" if self.builder_config.name == "images" else "patches"
        features = {key: tfds.features.Tensor(shape=(None, 65, 65, 1), dtype=np.uint8)}
        if self.builder_config.name == "named":
            features["sequence"] = tfds.features.Text()
        return self.dataset_info_from_configs(features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {name: self._generate_examples(name) for name in ("v_one", "v_two")}

    def _generate_examples(self, name):
        rng = np.random.default_rng([self.seed, len(name), ord(name[-1])])
        for i in range(4):
            size = 3 if self.builder_config.name == "named" else 1 + i
            example = {"patches": rng.integers(0, 256, [size, 65, 65, 1], np.uint8)}
            if self.builder_config.name == "named":
                example["sequence"] = name
            yield i, example


def prepared(folder, config="named", seed=0):
    builder = TinyGroups(config=config, data_dir=folder)
    builder.seed = seed
    builder.download_and_prepare()
    return builder


@pytest.fixture(scope="module")
def data_dir():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # readable in `read_only_folder` too
        for config in ("named", "plain"):
            prepared(folder, config)
        yield folder


@pytest.fixture
def named(data_dir):
    return TinyGroups(config="named", data_dir=data_dir)


@pytest.mark.parametrize("splits", [["v_two", "v_one"], "v_two+v_one"])
def test_patches_are_resized_as_for_inference(named, tmp_path, splits):
    groups = groups_from_tfds(named, splits, 32, tmp_path)
    assert groups.patches.shape == (24, 32, 32)
    assert groups.sequence_names == ("v_two", "v_one")
    assert groups.group.tolist() == np.repeat(np.arange(8), 3).tolist()
    assert groups.sequence.tolist() == [0] * 12 + [1] * 12
    assert (groups.cluster == -1).all()
    examples = [
        example for split in ("v_two", "v_one") for example in named.as_dataset(split=split)
    ]
    for group, example in enumerate(examples):
        expected = tf.round(tf.image.resize(example["patches"], [32, 32], antialias=True))
        assert np.array_equal(groups.patches[groups.rows_of(group)], expected[..., 0])


def test_groups_of_any_size_without_sequences(data_dir, tmp_path):
    builder = TinyGroups(config="plain", data_dir=data_dir)
    groups = groups_from_tfds(builder, "v_one", 65, tmp_path)
    assert sorted(groups.group_sizes) == [1, 2, 3, 4]
    assert groups.sequence_names == () and (groups.sequence == -1).all()
    for group, example in enumerate(builder.as_dataset(split="v_one")):
        patches = groups.patches[groups.rows_of(group)]
        assert np.array_equal(patches, example["patches"][..., 0])


def test_the_second_time_the_cache_is_loaded(named, tmp_path, monkeypatch):
    first = groups_from_tfds(named, "v_one", 32, tmp_path)
    monkeypatch.setattr(named, "as_dataset", lambda **_: pytest.fail("read again"))
    again = groups_from_tfds(named, "v_one", 32, tmp_path)
    assert again.directory == first.directory and isinstance(again.patches, np.memmap)
    assert again.content_hash() == first.content_hash()


def test_other_content_or_settings_never_reuse_a_cache(named, tmp_path):
    folders = {
        groups_from_tfds(builder, splits, size, tmp_path / "cache").directory
        for builder, splits, size in (
            (named, "v_one", 32),
            (named, "v_two", 32),
            (named, ["v_one", "v_two"], 32),
            (named, ["v_two", "v_one"], 32),
            (named, "v_one[:2]", 32),
            (named, "v_one", 42),
            (prepared(tmp_path / "changed", seed=1), "v_one", 32),
        )
    }
    assert len(folders) == 7
    same = prepared(tmp_path / "elsewhere")
    assert groups_from_tfds(same, "v_one", 32, tmp_path / "cache").directory in folders


def test_no_permission_in_the_cache_folder(named, read_only_folder):
    with pytest.raises(InputError, match=r"cannot write patch groups .*Permission denied"):
        groups_from_tfds(named, "v_one", 32, read_only_folder)
    assert not any(read_only_folder.iterdir())


def test_no_room_in_the_cache_folder(named, tmp_path, small_disk):
    small_disk(5000)
    with pytest.raises(InputError, match=r"cannot write patch groups .*too large"):
        groups_from_tfds(named, "v_one", 32, tmp_path)
    assert not any(tmp_path.iterdir())


def test_an_interruption_leaves_nothing(named, tmp_path, monkeypatch):
    read = named.as_dataset

    def interrupted(split, **options):
        if split == "v_two":
            raise KeyboardInterrupt
        return read(split=split, **options)

    monkeypatch.setattr(named, "as_dataset", interrupted)
    with pytest.raises(KeyboardInterrupt):
        groups_from_tfds(named, ["v_one", "v_two"], 32, tmp_path)
    assert not any(tmp_path.iterdir())


def test_bad_input(named, tmp_path):
    with pytest.raises(InputError, match="does not hold groups of patches"):
        images = TinyGroups(config="images", data_dir=tmp_path)
        groups_from_tfds(images, "v_one", 32, tmp_path)
    with pytest.raises(InputError, match="no split 'train'; it has v_one, v_two"):
        groups_from_tfds(named, "train", 32, tmp_path)
    with pytest.raises(InputError, match="is not prepared in"):
        empty = TinyGroups(config="named", data_dir=tmp_path / "empty")
        groups_from_tfds(empty, "v_one", 32, tmp_path)
    damaged = prepared(tmp_path / "damaged")
    (record,) = damaged.info.splits["v_one"].filepaths
    record.write_bytes(record.read_bytes()[:-7])
    with pytest.raises(InputError, match="is truncated"):
        groups_from_tfds(damaged, "v_one", 32, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
