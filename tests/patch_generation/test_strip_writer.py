import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.patch_generation.groups import GroupSettings, cut_groups
from doap_tf.patch_generation.scenes import Scene, find_scenes
from doap_tf.patch_generation.strip_writer import write_strips
from doap_tf.readers.strips import STRIPS, list_patch_sequences, read_patch_sequence
from tests.features.pictures import photograph

SETTINGS = GroupSettings(max_groups=20)


def test_strips_read_back_as_the_groups(tmp_path):
    photos, strips = tmp_path / "photos", tmp_path / "strips"
    photos.mkdir()
    cv2.imwrite(str(photos / "my cat.png"), photograph("chelsea"))
    scenes = find_scenes(photos)
    written = write_strips(scenes, strips, SETTINGS, processes=1)
    assert [path.name for path in written] == ["v_my_cat"]
    assert list_patch_sequences(strips) == written
    groups = cut_groups(scenes[0], SETTINGS)
    sequence = read_patch_sequence(written[0])
    for view, name in enumerate(STRIPS):
        np.testing.assert_array_equal(sequence[name], groups.patches[:, view])
    strip = cv2.imread(str(written[0] / "t5.png"), cv2.IMREAD_UNCHANGED)
    assert strip.shape == (65 * len(groups.patches), 65)


def test_strips_show_as_much_as_those_of_hpatches(tmp_path):
    cv2.imwrite(str(tmp_path / "cat.png"), photograph("chelsea")[:160, :200])
    (scene,) = find_scenes(tmp_path)
    (written,) = write_strips([scene], tmp_path / "strips", processes=1)
    expected = cut_groups(scene, GroupSettings(magnification=5.0)).patches[:, 0]
    np.testing.assert_array_equal(read_patch_sequence(written)["ref"], expected)


def test_scenes_of_the_same_name_are_refused(tmp_path):
    scenes = [Scene(name, "photos", ()) for name in ("a/b.png", "a b.jpg")]
    with pytest.raises(InputError, match="two scenes would be written as v_a_b"):
        write_strips(scenes, tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ("name", "kind", "folder"),
    [
        ("i_dome", "sequences", "i_dome"),
        ("graf", "sequences", "v_graf"),
        ("new york/v1.5", "aligned", "i_new_york_v1_5"),
        ("x/1.5.jpg", "photos", "v_x_1_5"),
    ],
)
def test_folders_are_named_as_in_hpatches(name, kind, folder):
    from doap_tf.patch_generation.strip_writer import _sequence_name

    assert _sequence_name(Scene(name, kind, ())) == folder


def test_strips_require_patches_of_65(tmp_path):
    with pytest.raises(InputError, match="patch_size is 32; strips have patches of 65"):
        write_strips([], tmp_path, GroupSettings(patch_size=32))
