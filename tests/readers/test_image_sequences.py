import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.readers.image_sequences import (
    list_image_sequences,
    read_homography,
    read_image_sequence,
)
from tests import layouts


@pytest.mark.parametrize("layout", ["oxford", "hpatches"])
def test_homographies_map_the_first_image_to_the_others(tmp_path, layout):
    written = layouts.write_image_sequences(tmp_path, layout=layout, size=(240, 320))
    folders = list_image_sequences(tmp_path)
    assert [folder.name for folder in folders] == ["boat", "graf"]
    for folder in folders:
        sequence = read_image_sequence(folder)
        assert sequence.name == folder.name and len(sequence.images) == 6
        np.testing.assert_array_equal(sequence.homographies, written[folder.name])
        first, *others = sequence.images
        for image, homography in zip(others, sequence.homographies, strict=True):
            back = cv2.warpPerspective(image, np.linalg.inv(homography), first.shape[1::-1])
            error = np.abs(back[80:160, 110:210].astype(int) - first[80:160, 110:210])
            assert error.mean() < 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 0\n0 1 0\n0 0 0\n", "singular"),
        ("1 2 3\n2 4 6\n0 0 1\n", "singular"),
        ("nan 0 0\n0 1 0\n0 0 1\n", "singular"),
        ("inf 0 0\n0 1 0\n0 0 1\n", "singular"),
        ("0 0 0 0 0 0 0 0 0", "singular"),
        ("1 0 0\n0 1 0\n", "size 6"),
        ("", "size 0"),
        ("one two three", "not a homography"),
    ],
)
def test_wrong_homographies_are_refused(tmp_path, text, message):
    (tmp_path / "H1to2p").write_text(text)
    with pytest.raises(InputError, match=f"H1to2p .*{message}"):
        read_homography(tmp_path / "H1to2p")


def test_a_homography_of_small_numbers_is_not_called_singular(tmp_path):
    (tmp_path / "H").write_text("1e-3 0 4000\n0 1e-3 3000\n1e-9 0 1\n")
    assert read_homography(tmp_path / "H").shape == (3, 3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "img4.ppm").unlink(), "lacks img4.ppm"),
        (lambda f: (f / "img1.ppm").unlink(), "lacks img1.ppm"),
        (lambda f: (f / "H1to3p").unlink(), "lacks H1to3p"),
        (lambda f: (f / "H1to3p").write_bytes(b"\xff\xfe"), "H1to3p is not a homography"),
        (lambda f: (f / "img2.ppm").write_bytes(b"P6\n9 9\n255\nabc"), "img2.ppm .* not an image"),
        (lambda f: (f / "img2.png").write_bytes(b""), "img2.png and img2.ppm; keep one"),
    ],
)
def test_damaged_sequences_are_refused(tmp_path, damage, message):
    layouts.write_image_sequences(tmp_path, ["graf"])
    damage(tmp_path / "graf")
    assert list_image_sequences(tmp_path) == [tmp_path / "graf"]
    with pytest.raises(InputError, match=message):
        read_image_sequence(tmp_path / "graf")
