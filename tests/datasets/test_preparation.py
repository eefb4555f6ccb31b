"""What all builders owe: bad input is named in one line and leaves nothing that loads."""

import os
import pathlib
import shutil
import sys
import urllib.error
import urllib.request
import zipfile

import cv2
import numpy as np
import pytest
import tensorflow_datasets as tfds

from doap_tf.data.builders import builder, builder_names
from doap_tf.errors import InputError
from doap_tf.readers import mosaics, original_files
from tests import layouts


def write(name, folder):
    if name == "ubc_phototour":
        layouts.write_ubc(folder, groups=80)
    elif name == "hpatches":
        layouts.write_hpatches(folder, positions=2)
    elif name == "rome_patches":
        layouts.write_rome(folder, groups=2)
    else:
        layouts.write_image_sequences(folder, ["graf"])


def prepared(data_dir):
    return list(data_dir.rglob("dataset_info.json"))


def leftovers(data_dir):
    return [
        path for path in data_dir.rglob("*") if "incomplete" in path.name or "tfrecord" in path.name
    ]


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        (
            "ubc_phototour",
            lambda f: (f / "patches0001.bmp").write_bytes(
                (f / "patches0001.bmp").read_bytes()[:-100]
            ),
            "patches0001.bmp .* not an image",
        ),
        ("ubc_phototour", lambda f: (f / "patches0000.bmp").unlink(), "place of mosaic 0"),
        ("ubc_phototour", lambda f: (f / "info.txt").write_text("1 0\n"), "info.txt has 1 lines"),
        (
            "hpatches",
            lambda f: cv2.imwrite(str(f / "v_courses/h2.png"), np.zeros((130, 64), np.uint8)),
            "h2.png is 64×130 pixels",
        ),
        (
            "hpatches",
            lambda f: cv2.imwrite(str(f / "v_courses/h2.png"), np.zeros((131, 65), np.uint8)),
            "h2.png is 65×131 pixels",
        ),
        ("hpatches", lambda f: (f / "v_courses/t3.png").unlink(), "v_courses lacks t3.png"),
        ("hpatches", lambda f: (f / "v_courses").rename(f / "v-courses"), "rename the folder"),
        (
            "rome_patches",
            lambda f: (f / "patch_retrieval_Rome_test.mat").write_text("<html>"),
            "Rome_test.mat is not a MATLAB file",
        ),
        (
            "oxford_affine",
            lambda f: (f / "graf/H1to4p").write_text("1 0 0 0 1 0 1 1 0"),
            "H1to4p is a singular homography",
        ),
        (
            "oxford_affine",
            lambda f: (f / "graf/H1to4p").write_text("<html> not found"),
            "H1to4p is not a homography",
        ),
    ],
)
def test_damaged_files_leave_nothing_behind(tmp_path, name, damage, message):
    source, data_dir = tmp_path / "source", tmp_path / "data"
    write(name, source)
    damage(source)
    with pytest.raises(InputError, match=message) as error:
        builder(name, source=source, data_dir=data_dir).download_and_prepare()
    assert "\n" not in str(error.value)
    assert not prepared(data_dir) and not leftovers(data_dir)
    # Mended files are prepared in the same place.
    shutil.rmtree(source)
    write(name, source)
    mended = builder(name, source=source, data_dir=data_dir)
    mended.download_and_prepare()
    assert all(split.num_examples for split in mended.info.splits.values())


def test_an_interrupted_preparation_starts_clean(tmp_path, monkeypatch):
    source, data_dir = tmp_path / "source", tmp_path / "data"
    write("ubc_phototour", source)

    def interrupted(folder):
        yield next(iterate_groups(folder))
        raise KeyboardInterrupt

    iterate_groups = mosaics.iterate_groups
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mosaics, "iterate_groups", interrupted)
        builder("ubc_phototour", source=source, data_dir=data_dir).download_and_prepare()
    assert not prepared(data_dir) and not leftovers(data_dir)

    # What a killed process leaves: TFDS's unfinished folder and half-unpacked files.
    killed = data_dir / "ubc_phototour" / "liberty" / "incomplete.ABCDEF_1.0.0"
    killed.mkdir(parents=True)
    (killed / "ubc_phototour-train.tfrecord-00000-of-00001").write_bytes(b"half")
    (data_dir / ".ubc_phototour.scratch" / "liberty").mkdir(parents=True)
    whole = builder("ubc_phototour", source=source, data_dir=data_dir)
    whole.download_and_prepare()
    assert whole.info.splits["train"].num_examples == 80
    assert not killed.exists() and not (data_dir / ".ubc_phototour.scratch").exists()


def test_a_preparation_is_used_again_but_only_for_the_same_files(tmp_path):
    source, data_dir = tmp_path / "source", tmp_path / "data"
    write("rome_patches", source)
    # Made before the data is there, as in a process that waits for another one.
    waiting = builder("rome_patches", source=source, data_dir=data_dir)
    builder("rome_patches", source=source, data_dir=data_dir).download_and_prepare()
    waiting.download_and_prepare()
    assert waiting.info.splits["train"].num_examples == 2
    # Without a source, what is prepared is taken.
    builder("rome_patches", data_dir=data_dir).download_and_prepare()

    layouts.write_rome(tmp_path / "other", groups=3)
    with pytest.raises(InputError, match=r"was prepared from other files than .*other"):
        builder("rome_patches", source=tmp_path / "other", data_dir=data_dir).download_and_prepare()
    with pytest.raises(InputError, match="nowhere of rome_patches does not exist"):
        builder(
            "rome_patches", source=tmp_path / "nowhere", data_dir=data_dir
        ).download_and_prepare()


@pytest.mark.parametrize("place", ["source", "manual"])
@pytest.mark.parametrize("packed", [True, False])
def test_files_may_be_packed_or_not_and_given_or_placed(tmp_path, place, packed):
    folder = tmp_path / "place" / "hpatches-release"
    write("hpatches", folder)
    if packed:
        shutil.make_archive(str(folder), "gztar", folder.parent, folder.name)
        shutil.rmtree(folder)
    data_dir = tmp_path / "data"
    if place == "source":
        source = folder.with_name("hpatches-release.tar.gz") if packed else folder
        hpatches, config = builder("hpatches", data_dir=data_dir, source=source), None
    else:
        hpatches = builder("hpatches", data_dir=data_dir)
        config = tfds.download.DownloadConfig(manual_dir=folder.parent)
    hpatches.download_and_prepare(download_config=config)
    assert {name: split.num_examples for name, split in hpatches.info.splits.items()} == {
        "i_ajuntament": 2,
        "v_courses": 2,
    }
    assert sorted(path.name for path in data_dir.iterdir()) == [
        ".hpatches.lock",
        "downloads",
        "hpatches",
    ]


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **options):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


ADDRESSES = {
    ("ubc_phototour", "liberty"): [
        "https://cmp.felk.cvut.cz/~mishkdmy/datasets/BrownPhotoTour/liberty.zip",
        "http://icvl.ee.ic.ac.uk/vbalnt/liberty.zip",
    ],
    ("ubc_phototour", "yosemite_pairs"): [
        "https://cmp.felk.cvut.cz/~mishkdmy/datasets/BrownPhotoTour/yosemite.zip",
        "http://icvl.ee.ic.ac.uk/vbalnt/yosemite.zip",
    ],
    ("hpatches", None): [
        "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/hpatches-release.zip"
    ],
    ("rome_patches", None): [
        f"http://pascal.inrialpes.fr/data2/paulin/RomePatches/patch_retrieval_Rome_{part}.mat"
        for part in ("train", "train_labels", "test", "test_labels")
    ],
    ("oxford_affine", "oxford"): [
        f"https://www.robots.ox.ac.uk/~vgg/research/affine/det_eval_files/{name}.tar.gz"
        for name in ("bark", "bikes", "boat", "graf", "leuven", "trees", "ubc", "wall")
    ],
    ("oxford_affine", "hpatches_sequences"): [
        "https://huggingface.co/datasets/vbalnt/hpatches/resolve/main/"
        "hpatches-sequences-release.zip"
    ],
}


@pytest.mark.parametrize(("name", "config"), ADDRESSES)
def test_every_file_has_its_whole_address(tmp_path, name, config):
    files = builder(name, config=config, data_dir=tmp_path)._original().files
    assert [url for urls in files.values() for url in urls] == ADDRESSES[name, config]
    for file, urls in files.items():
        assert all(url.endswith(f"/{file}") for url in urls)


@pytest.mark.parametrize(("name", "config"), ADDRESSES)
def test_missing_files_are_named_with_where_to_get_and_to_put_them(
    tmp_path, no_network, name, config
):
    missing = builder(name, config=config, data_dir=tmp_path)
    with pytest.raises(InputError) as error:
        missing.download_and_prepare()
    message = str(error.value)
    assert "\n" not in message
    original = missing._original()
    place = f"folder {original.folder}, into {tmp_path / 'downloads' / 'manual'}"
    for part in [*original.files, *next(iter(original.files.values())), place, "source"]:
        assert part in message
    assert not prepared(tmp_path)


@pytest.mark.parametrize("source", ["nowhere", "empty", "other.zip"])
@pytest.mark.parametrize(("name", "config"), ADDRESSES)
def test_a_wrong_source_is_answered_with_where_to_get_the_data(tmp_path, name, config, source):
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("readme.txt", "other data")
    wrong = builder(name, config=config, source=tmp_path / source, data_dir=tmp_path / "data")
    with pytest.raises(InputError) as error:
        wrong.download_and_prepare()
    message = str(error.value)
    assert message.startswith(f"source {tmp_path / source} ") and "\n" not in message
    for url in ADDRESSES[name, config]:
        folder, _, file = url.rpartition("/")
        assert folder in message and file in message
    assert not prepared(tmp_path)


@pytest.mark.parametrize("name", ["hpatches", "photo_patches", "rome_patches"])
def test_an_empty_name_is_no_source(tmp_path, name):
    with pytest.raises(InputError, match=r"leave it out|or no source"):
        builder(name, source="", data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "archive", "kind"),
    [
        ("hpatches", "hpatches-release.zip", "zip"),
        ("oxford_affine", "graf.tar.gz", "gztar"),
        ("ubc_phototour", "liberty.zip", "zip"),
    ],
)
@pytest.mark.parametrize("given", ["archive", "folder"])
def test_a_partial_archive_is_named(tmp_path, name, archive, kind, given):
    write(name, tmp_path / "unpacked")
    path = tmp_path / "source" / archive
    shutil.make_archive(str(path.with_name(archive.split(".")[0])), kind, tmp_path / "unpacked")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    source = path if given == "archive" else path.parent
    with pytest.raises(InputError, match=rf"{archive} is .* damaged; fetch it again") as error:
        builder(name, source=source, data_dir=tmp_path / "data").download_and_prepare()
    assert "\n" not in str(error.value)
    assert not prepared(tmp_path) and not leftovers(tmp_path / "data")


@pytest.mark.parametrize("packed", [True, False])
def test_another_scene_is_refused_by_its_name(tmp_path, packed):
    source = tmp_path / "liberty"
    write("ubc_phototour", source)
    if packed:
        source = shutil.make_archive(str(source), "zip", source)
    with pytest.raises(InputError, match=r"does not hold notredame, .*/notredame\.zip"):
        builder(
            "ubc_phototour", config="notredame", source=source, data_dir=tmp_path / "data"
        ).download_and_prepare()


def test_another_scene_is_refused_by_its_size(tmp_path, monkeypatch):
    _, points = layouts.write_ubc(tmp_path / "scene", groups=5, pairs=4)
    notredame = builder(
        "ubc_phototour", config="notredame", source=tmp_path / "scene", data_dir=tmp_path / "data"
    )
    official = {"liberty": len(points), "notredame": 468_159}
    monkeypatch.setattr(sys.modules[type(notredame).__module__], "_PATCHES", official)
    with pytest.raises(InputError, match=r"as liberty has; give the config 'liberty' or the fold"):
        notredame.download_and_prepare()


def test_missing_labels_are_named_with_their_address(tmp_path):
    write("rome_patches", tmp_path / "source")
    missing = "patch_retrieval_Rome_train_labels.mat"
    (tmp_path / "source" / missing).unlink()
    with pytest.raises(
        InputError, match=rf"source lacks {missing}; download http://.*/RomePatches/{missing} into"
    ):
        builder(
            "rome_patches", source=tmp_path / "source", data_dir=tmp_path / "data"
        ).download_and_prepare()
    assert not prepared(tmp_path)


def test_a_mirror_s_files_are_kept_if_good_and_dropped_if_not(tmp_path, monkeypatch):
    mirror = tmp_path / "mirror"
    write("hpatches", mirror / "hpatches-release")
    archive = shutil.make_archive(str(mirror), "zip", mirror)
    original = original_files.Original(
        {"hpatches-release.zip": [pathlib.Path(archive).as_uri()]},
        "hpatches-release",
        lambda folder: any(folder.glob("*/ref.png")),
    )
    hpatches = builder("hpatches", data_dir=tmp_path / "good")
    monkeypatch.setattr(type(hpatches), "_original", lambda self: original)
    hpatches.download_and_prepare()
    assert hpatches.info.splits["v_courses"].num_examples == 2
    assert (tmp_path / "good" / "downloads" / "hpatches" / "hpatches-release.zip").is_file()

    (mirror / "hpatches-release" / "v_courses" / "t3.png").unlink()
    shutil.make_archive(str(mirror), "zip", mirror)
    with pytest.raises(InputError, match=r"lacks t3\.png"):
        builder("hpatches", data_dir=tmp_path / "bad").download_and_prepare()
    assert not (tmp_path / "bad" / "downloads" / "hpatches").exists()


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path):
    write("rome_patches", tmp_path / "source")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=r"cannot prepare rome_patches in .*file/data: "):
        builder(
            "rome_patches", source=tmp_path / "source", data_dir=tmp_path / "file" / "data"
        ).download_and_prepare()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_data_folder_without_permission_is_named(tmp_path):
    write("rome_patches", tmp_path / "source")
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o555)
    with pytest.raises(InputError, match=r"cannot prepare rome_patches in .*data: .*denied"):
        builder(
            "rome_patches", source=tmp_path / "source", data_dir=data_dir
        ).download_and_prepare()
    assert not list(data_dir.iterdir())


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    write("rome_patches", tmp_path / "source")

    def full(self, *arguments):
        raise OSError(28, "No space left on device")

    rome = builder("rome_patches", source=tmp_path / "source", data_dir=tmp_path / "data")
    monkeypatch.setattr(type(rome.info), "write_to_directory", full)
    with pytest.raises(InputError, match=r"cannot prepare rome_patches in .*No space left"):
        rome.download_and_prepare()
    assert not prepared(tmp_path / "data") and not leftovers(tmp_path / "data")


def test_unknown_names_are_answered_with_the_known_ones(tmp_path):
    assert {"hpatches", "oxford_affine", "rome_patches", "ubc_phototour"} <= set(builder_names())
    with pytest.raises(
        InputError, match="unknown dataset 'mnist'; known are colmap_patches, hpatches, "
    ):
        builder("mnist")
    with pytest.raises(InputError, match="unknown config 'rome' of ubc_phototour; known are"):
        builder("ubc_phototour", config="rome", data_dir=tmp_path)
