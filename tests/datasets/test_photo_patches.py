import pathlib
import pickle

import cv2
import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.appearance import PRESETS
from doap_tf.datasets.hpatches import hpatches_dataset_builder
from doap_tf.datasets.photo_patches import photo_patches_dataset_builder
from doap_tf.errors import InputError
from doap_tf.patch_generation import groups
from doap_tf.patch_generation.groups import GroupSettings, cut_groups, generate_groups
from doap_tf.patch_generation.scenes import find_scenes
from tests import layouts
from tests.features.pictures import photograph

SETTINGS = GroupSettings(max_groups=12)
DIRECT = "--runner=DirectRunner"


def write_photographs(folder, count=3):
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        # Detectors need real texture.
        picture = photograph("motorcycle")[40 * number : 40 * number + 200, 100:400]
        cv2.imwrite(str(folder / f"{number}.png"), picture)


def make_builder(source, data_dir, **kwargs):
    arguments = {"settings": SETTINGS, "validation_fraction": 0.3, "processes": 1, **kwargs}
    return photo_patches_dataset_builder.Builder(source=source, data_dir=data_dir, **arguments)


class PhotoPatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = photo_patches_dataset_builder.Builder
    SPLITS = {"train": 24, "validation": 12}  # noqa: RUF012

    def _make_builder(self, config=None):
        return make_builder(self.dummy_data, self.tmp_dir)

    def test_examples_are_the_groups_of_the_library(self):
        builder = self._make_builder()
        builder.download_and_prepare()
        examples = [
            example
            for split in self.SPLITS
            for example in builder.as_dataset(split=split).as_numpy_iterator()
        ]
        scenes = {scene.name: scene for scene in find_scenes(self.dummy_data)}
        assert {example["sequence"].decode() for example in examples} == set(scenes)
        for name, scene in scenes.items():
            chosen = [example for example in examples if example["sequence"].decode() == name]
            groups = cut_groups(scene, SETTINGS)
            assert [example["index"] for example in chosen] == list(range(len(groups.patches)))
            patches = np.stack([example["patches"][..., 0] for example in chosen])
            np.testing.assert_array_equal(patches, groups.patches)

    def test_features_are_those_of_hpatches(self):
        hpatches = hpatches_dataset_builder.Builder(data_dir=self.tmp_dir)
        builder = self._make_builder()
        assert repr(builder.info.features) == repr(hpatches.info.features)

    def test_a_builder_survives_pickling(self):
        builder = self._make_builder()
        again = pickle.loads(pickle.dumps(builder))
        assert again.info.full_name == builder.info.full_name
        assert again.data_path == builder.data_path


@pytest.fixture
def photographs(tmp_path):
    write_photographs(tmp_path / "photos")
    return tmp_path / "photos"


def config_name(source, data_dir, **kwargs):
    return make_builder(source, data_dir, **kwargs).builder_config.name


def test_the_config_is_named_after_contents_and_settings(photographs, tmp_path):
    name = config_name(photographs, tmp_path)
    assert name.startswith("photos_")
    assert config_name(photographs, tmp_path, processes=2) == name
    moved = photographs.rename(tmp_path / "moved")
    assert config_name(moved, tmp_path) == name
    names = {
        name,
        config_name(moved, tmp_path, settings=GroupSettings(max_groups=12, seed=1)),
        config_name(moved, tmp_path, validation_fraction=0.0),
        config_name(moved, tmp_path, kind="aligned"),
        config_name(moved, tmp_path, settings=GroupSettings(appearance=PRESETS["strong"])),
        config_name(moved, tmp_path, settings=GroupSettings(min_correlation=0.1)),
        config_name(moved, tmp_path, settings=GroupSettings(oriented=False)),
    }
    picture = moved / "1.png"
    content = picture.read_bytes()
    picture.write_bytes(content[:-1] + b"\0")
    names.add(config_name(moved, tmp_path))
    picture.write_bytes(content)
    picture.rename(moved / "one.png")
    names.add(config_name(moved, tmp_path))
    assert len(names) == 9


def test_the_settings_of_earlier_preparations_keep_their_hash():
    known = "36ddfb415ae96773d0ecd01b1ab3a77a79b44c3f8ccf73022c4118fa752005f6"
    assert photo_patches_dataset_builder._hash_contents({}, GroupSettings()) == known


def test_an_unknown_appearance_is_refused(photographs, tmp_path):
    with pytest.raises(InputError, match="camera, light, strong, not 'dark'"):
        photo_patches_dataset_builder.Builder.for_training(
            "train", 32, 0.1, source=photographs, data_dir=tmp_path, appearance="dark"
        )


def test_other_contents_never_reuse_a_preparation(photographs, tmp_path):
    first = make_builder(photographs, tmp_path / "data")
    first.download_and_prepare()
    write_photographs(photographs, count=5)
    second = make_builder(photographs, tmp_path / "data")
    second.download_and_prepare()
    assert first.data_path != second.data_path
    assert first.info.splits["train"].num_examples == 24
    assert second.info.splits["train"].num_examples == 36


def test_an_interrupted_preparation_leaves_nothing_that_loads(photographs, tmp_path, monkeypatch):
    module = photo_patches_dataset_builder
    generate = module.generate_groups

    def interrupted(*args):
        groups = generate(*args)
        yield next(groups)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "generate_groups", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_builder(photographs, tmp_path / "data").download_and_prepare()
    monkeypatch.undo()
    builder = make_builder(photographs, tmp_path / "data")
    assert not list((tmp_path / "data").rglob("dataset_info.json"))
    assert not pathlib.Path(builder.data_path).exists()
    with pytest.raises(AssertionError, match="could not find data"):
        builder.as_dataset(split="train")
    builder.download_and_prepare()
    assert builder.info.splits["train"].num_examples == 24
    assert not list((tmp_path / "data").rglob("*incomplete*"))


def assert_same_examples(one, other):
    assert set(one.info.splits) == set(other.info.splits) == {"train", "validation"}
    for split in one.info.splits:
        first, second = (builder.as_dataset(split=split) for builder in (one, other))
        for example, expected in zip(tfds.as_numpy(first), tfds.as_numpy(second), strict=True):
            assert example.keys() == expected.keys()
            for name, value in example.items():
                np.testing.assert_array_equal(value, expected[name])


def test_beam_gives_the_examples_of_this_process(photographs, tmp_path, monkeypatch, caplog):
    pytest.importorskip("apache_beam")
    (photographs / "damaged.jpg").write_bytes(b"no image")
    monkeypatch.chdir(tmp_path)
    one, two = make_builder("photos", "one"), make_builder("photos", "two", beam_options=DIRECT)
    one.download_and_prepare()
    caplog.clear()
    two.download_and_prepare()
    assert "damaged.jpg is skipped: " in caplog.text
    assert_same_examples(one, two)
    assert not list((tmp_path / "two").glob(".photo_patches.*/*"))


def test_what_beam_has_cut_is_not_cut_again(photographs, tmp_path, monkeypatch):
    pytest.importorskip("apache_beam")
    cut, cut_again = groups.cut_groups, []

    def interrupted(*args):
        yield next(generate_groups(*args))
        raise KeyboardInterrupt

    def noting(scene, settings):
        cut_again.append(scene.name)
        return cut(scene, settings)

    builder = make_builder(photographs, tmp_path / "data", beam_options=DIRECT)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(photo_patches_dataset_builder, "generate_groups", interrupted)
        builder.download_and_prepare()
    monkeypatch.setattr(groups, "cut_groups", noting)
    builder.download_and_prepare()
    assert len(cut_again) == 1  # for validation
    assert builder.info.splits["train"].num_examples == 24


@pytest.mark.slow
def test_two_processes_of_beam_give_the_examples_of_one(photographs, tmp_path):
    pytest.importorskip("apache_beam")
    options = f"{DIRECT} --direct_num_workers=2 --direct_running_mode=multi_processing"
    one = make_builder(photographs, tmp_path / "one")
    two = make_builder(photographs, tmp_path / "two", beam_options=options)
    one.download_and_prepare()
    two.download_and_prepare()
    assert_same_examples(one, two)


def test_a_fault_of_a_sequence_is_one_line_by_beam(tmp_path):
    pytest.importorskip("apache_beam")
    (folder,) = layouts.write_image_sequences(tmp_path / "source", ["graf"])
    (tmp_path / "source" / folder / "img3.ppm").write_bytes(b"no image")
    builder = make_builder(
        tmp_path / "source", tmp_path / "data", kind="sequences", beam_options=DIRECT
    )
    with pytest.raises(InputError, match=r"img3\.ppm .* is not an image"):
        builder.download_and_prepare()


def test_one_photograph_has_no_validation_split(tmp_path):
    write_photographs(tmp_path / "photos", count=1)
    builder = make_builder(tmp_path / "photos", tmp_path / "data")
    builder.download_and_prepare()
    assert list(builder.info.splits) == ["train"]


def test_damaged_photographs_are_skipped_by_name(photographs, tmp_path, caplog):
    (photographs / "damaged.jpg").write_bytes(b"no image")
    builder = make_builder(photographs, tmp_path / "data", validation_fraction=0.0)
    builder.download_and_prepare()
    assert "damaged.jpg is skipped: " in caplog.text
    assert builder.info.splits["train"].num_examples == 36


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"kind": "films"}, r"unknown kind 'films'.* sequences\.$"),
        ({"source": "nowhere"}, "'nowhere' is neither .* or no source for those of scikit-image"),
        ({"source": "nowhere", "kind": "aligned"}, "'nowhere' is neither .* folder of folders"),
        ({"source": "nowhere", "kind": "sequences"}, "nowhere holds no sequence .* Get Oxford's"),
        ({"source": None, "kind": "aligned"}, "kind 'aligned' requires a source"),
        ({"config": "liberty"}, "photo_patches has no config 'liberty'"),
        ({"validation_fraction": 2.0}, r"validation .* not 2\.0"),
    ],
)
def test_bad_arguments_are_named(photographs, tmp_path, kwargs, message):
    with pytest.raises(InputError, match=message):
        make_builder(**{"source": photographs, "data_dir": tmp_path, **kwargs})


def test_only_damaged_photographs_prepare_nothing(tmp_path, caplog):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/damaged.jpg").write_bytes(b"no image")
    builder = make_builder(tmp_path / "photos", tmp_path / "data")
    with pytest.raises(InputError, match="none of 1 scenes"):
        builder.download_and_prepare()
    assert "damaged.jpg is skipped" in caplog.text
    assert not list((tmp_path / "data").rglob("dataset_info.json"))


def test_without_source_scikit_image_s_photographs_are_taken(tmp_path):
    builder = photo_patches_dataset_builder.Builder(data_dir=tmp_path)
    assert builder.builder_config.description == "12 photographs of scikit-image, 65 pixels"
