import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.readers.strips import STRIPS, list_patch_sequences, read_patch_sequence
from tests import layouts


@pytest.fixture
def sequence(tmp_path):
    patches = layouts.write_hpatches(tmp_path, ["i_dome"])["i_dome"]
    return tmp_path / "i_dome", patches


def test_strips_hold_the_views_of_every_position(sequence):
    folder, patches = sequence
    strips = read_patch_sequence(folder)
    assert tuple(strips) == STRIPS and STRIPS[:3] == ("ref", "e1", "e2") and STRIPS[-1] == "t5"
    np.testing.assert_array_equal(np.stack(list(strips.values()), axis=1), patches)


def test_sequences_are_listed_by_name(tmp_path):
    layouts.write_hpatches(tmp_path, ["v_b", "i_a"], positions=1)
    (tmp_path / "notes").mkdir()
    assert [path.name for path in list_patch_sequences(tmp_path)] == ["i_a", "v_b"]
    # A sequence that lost its reference is a damaged one, not none at all.
    (tmp_path / "i_a" / "ref.png").unlink()
    assert [path.name for path in list_patch_sequences(tmp_path)] == ["i_a", "v_b"]


def rewrite(path, height, width):
    cv2.imwrite(str(path), np.full((height, width), 9, np.uint8))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "t3.png").unlink(), "lacks t3.png"),
        (lambda f: rewrite(f / "e2.png", 12 * 65, 64), "e2.png is 64×780 pixels; a strip is 65"),
        (lambda f: rewrite(f / "h1.png", 12 * 65 + 1, 65), "h1.png is 65×781 pixels"),
        (lambda f: rewrite(f / "h1.png", 11 * 65, 65), "'h1': 11"),
        (
            lambda f: (f / "ref.png").write_bytes((f / "ref.png").read_bytes()[:-30]),
            "ref.png .* not an image",
        ),
    ],
)
def test_damaged_sequences_are_refused(sequence, damage, message):
    folder, _ = sequence
    damage(folder)
    with pytest.raises(InputError, match=message):
        read_patch_sequence(folder)


def test_a_folder_without_sequences_is_named(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path} holds no sequence folders"):
        list_patch_sequences(tmp_path)
