import pathlib
import pickle
import shutil

import cv2
import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.data.preparation import DatasetSource
from doap_tf.datasets.colmap_patches import colmap_patches_dataset_builder
from doap_tf.errors import InputError
from doap_tf.features.frames import radii, scale_frames
from doap_tf.features.overlap import overlapping_pairs
from doap_tf.patch_generation.colmap_groups import (
    PLACES,
    PointSettings,
    Views,
    cut_views,
    find_views,
    split_views,
)
from doap_tf.readers.colmap_model import find_model, read_model
from tests import reconstruction

SIZE = 32


def settings(**kwargs):
    return PointSettings(patch_size=SIZE, magnification=8, **kwargs)


def make_builder(source, data_dir, **kwargs):
    arguments = {"settings": settings(), "processes": 1, **kwargs}
    return colmap_patches_dataset_builder.Builder(source=source, data_dir=data_dir, **arguments)


class ColmapPatchesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = colmap_patches_dataset_builder.Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ("observed",)
    SPLITS = {"train": 11, "validation": 1}  # noqa: RUF012

    def _make_builder(self, config=None):
        return make_builder(self.dummy_data, self.tmp_dir)


def test_a_builder_survives_pickling(source, tmp_path):
    builder = make_builder(source, tmp_path, config="projected")
    again = pickle.loads(pickle.dumps(builder))
    assert again.info.full_name == builder.info.full_name
    assert again.builder_config.name.startswith("projected_")


@pytest.fixture(scope="module")
def scene():
    return reconstruction.make_scene()


@pytest.fixture(scope="module")
def source(scene, tmp_path_factory):
    return reconstruction.write_source(scene, tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def model(source):
    return read_model(*find_model(source))


@pytest.fixture(scope="module", params=PLACES)
def views(request, model):
    return request.param, find_views(model, settings(place=request.param), 1)


def correlations(patches):
    """Of each patch [n, S, S] with the first."""
    vectors = patches.reshape(len(patches), -1).astype(float)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[1:] @ vectors[0]


def test_the_patches_of_a_group_show_the_same_place(model, views, tmp_path):
    place, found = views
    groups = list(cut_views(model, found, settings(place=place), tmp_path, 1))
    assert len(groups) > 60
    right = np.concatenate([correlations(group.patches) for group in groups])
    assert np.median(right) > 0.9 and right.min() > 0.25
    wrong = correlations(np.stack([group.patches[0] for group in groups]))
    assert np.median(np.abs(wrong)) < 0.3


def test_frames_are_where_the_cameras_say(scene, model, views):
    place, found = views
    reference = found.of(found.references)
    turns = []
    for row, group in enumerate(found.group):
        first, view = (
            scene.views[chosen.image[index]] for chosen, index in ((reference, group), (found, row))
        )
        # The end of the reference's first axis, at the depth of the point.
        end = np.append(reference.frames[group] @ [1, 0, 1] + 0.5, 1) * reference.depth[group]
        end = np.linalg.inv(reconstruction.MATRIX) @ end - first.translation
        end = cv2.Rodrigues(first.vector)[0].T @ end
        ends = np.stack([scene.places[found.point[row]], end])
        pixels, _ = cv2.projectPoints(
            ends, view.vector, view.translation, reconstruction.MATRIX, None
        )
        centre, end = pixels[:, 0] - 0.5
        frame = found.frames[row]
        if place == "projected":
            np.testing.assert_allclose(frame[:, 2], centre, atol=1e-6)
            turns.append(
                np.subtract(*(np.arctan2(*arm[::-1]) for arm in (end - centre, frame[:, 0])))
            )
        else:
            assert np.linalg.norm(frame[:, 2] - centre) <= 2
    turns = np.abs(np.angle(np.exp(1j * np.array(turns))))
    if place == "projected":
        assert np.median(turns) < np.radians(3) and turns.max() < np.radians(20)
    sizes = radii(found.frames) * found.depth
    np.testing.assert_allclose(sizes, sizes[found.references][found.group])


def test_no_two_groups_overlap(model, views):
    _, found = views
    for image in np.unique(found.image):
        rows = found.image == image
        patches = scale_frames(found.frames[rows], 5)
        first, second, _ = overlapping_pairs(patches, patches, 0.501)
        np.testing.assert_array_equal(first, second)


def test_a_place_with_two_points_is_taken_once(model):
    """Half of a track's images see one point, the others another at the same place."""
    row = find_views(model, settings(min_track=7), 1).point[0]
    twins = np.array([10, 20])
    images = [
        image._replace(points=np.where(image.points == model.ids[row], twins[number % 2], -1))
        for number, image in enumerate(model.images)
    ]
    for offset, count in ((1e-3, 1), (1.0, 2)):
        places = model.places[row] + [[0, 0, 0], [offset, 0, 0]]
        broken = model._replace(ids=twins, places=places, images=images)
        found = find_views(broken, settings(max_error=999.0, min_track=2), 1)
        assert len(found.references) == count


def test_settings_limit_tracks_errors_and_views(source, tmp_path):
    reconstruction.write_model(reconstruction.make_scene(noise=1.0), tmp_path)
    model = read_model(tmp_path, source / "images")
    counts = {}
    for name, chosen in {
        "all": settings(min_track=2, max_error=9.0),
        "long": settings(min_track=6, max_error=9.0),
        "exact": settings(min_track=2, max_error=0.8),
        "few": settings(min_track=2, max_error=9.0, max_views=3),
    }.items():
        found = find_views(model, chosen, 1)
        counts[name] = np.bincount(found.group)
    assert counts["all"].min() < 6 <= counts["long"].min()
    assert counts["exact"].sum() < 0.5 * counts["all"].sum()
    assert counts["few"].max() == 3 and len(counts["few"]) == len(counts["all"])


def test_held_out_images_show_no_training_patch(views):
    _, found = views
    train, validation = split_views(found, 0.15)
    assert not set(train.point) & set(validation.point)
    held_out = set(validation.image[validation.references])
    assert held_out and not held_out & set(train.image)
    assert 0 < len(validation.references) <= 0.15 * len(found.references)
    everything, nothing = split_views(found, 0)
    assert len(everything.point) == len(found.point) and not len(nothing.point)
    one = Views(*(column[:2] for column in found))
    with pytest.raises(InputError, match="same reference image; a fraction of 0"):
        split_views(one, 0.5)


def test_groups_reach_training(source, tmp_path, monkeypatch):
    monkeypatch.setattr("doap_tf.parallel.cores", lambda: 1)
    options = {"source": source, "config": "projected", "magnification": 8.0}
    train, validation = DatasetSource("colmap_patches", options, tmp_path).load(SIZE)
    assert train.size == SIZE and train.magnification == 8
    assert set(train.sequence_names) <= {f"{number}.jpg" for number in range(7)}
    assert not set(train.sequence_names) & set(validation.sequence_names)
    assert train.group_sizes.min() >= 2 and train.group_sizes.max() <= 7


def test_the_config_is_named_after_contents_and_settings(scene, tmp_path):
    source = reconstruction.write_source(scene, tmp_path / "source")

    def name(**kwargs):
        return make_builder(source, tmp_path, **kwargs).builder_config.name

    names = {
        name(),
        name(config="projected"),
        name(settings=settings(min_track=4)),
        name(validation_fraction=0.0),
        name(parts=("train",)),
    }
    assert name() in names and name(processes=2) in names
    (source / "images/3.jpg").write_bytes((source / "images/4.jpg").read_bytes())
    names.add(name())
    reconstruction.write_model(reconstruction.make_scene(noise=0.1), source / "sparse/0")
    names.add(name())
    assert len(names) == 7


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"source": "nowhere"}, "nowhere is no folder"),
        ({"config": "liberty"}, "unknown config 'liberty' .* observed, projected"),
    ],
)
def test_bad_arguments_are_named(source, tmp_path, kwargs, message):
    with pytest.raises(InputError, match=message):
        make_builder(**{"source": source, "data_dir": tmp_path, **kwargs})


@pytest.mark.parametrize(
    "kwargs",
    [
        {"place": "nowhere"},
        {"min_track": 1},
        {"max_views": 1},
        {"max_error": 0},
        {"max_overlap": 1},
    ],
)
def test_bad_settings_are_named(kwargs):
    with pytest.raises(InputError, match=f"{next(iter(kwargs))} must be"):
        PointSettings(**kwargs)


def test_a_source_is_required(tmp_path):
    with pytest.raises(InputError, match="colmap_patches requires a source"):
        DatasetSource("colmap_patches", {}, tmp_path).load(SIZE)


def test_images_that_do_not_fit_prepare_nothing(source, tmp_path):
    copied = pathlib.Path(shutil.copytree(source, tmp_path / "source"))
    picture = cv2.imread(str(copied / "images/3.jpg"))
    cv2.imwrite(str(copied / "images/3.jpg"), picture[:-10])
    with pytest.raises(InputError, match=r"3\.jpg has 240×190 pixels, its camera 240×200; give"):
        make_builder(copied, tmp_path / "data").download_and_prepare()
    with pytest.raises(InputError, match="no point is seen by 9 images within 2 pixels"):
        make_builder(
            source, tmp_path / "data", settings=settings(min_track=9)
        ).download_and_prepare()
    assert not list((tmp_path / "data").rglob("dataset_info.json"))
