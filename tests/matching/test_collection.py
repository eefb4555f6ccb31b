import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import find_images


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    for name in ("a.png", "b.png", "more/c.png"):
        cv2.imwrite(str(folder / name), np.zeros((9, 9), np.uint8))
    return find_images(f"{folder}/**/*.png")


def test_images_are_named_below_the_fixed_part_of_the_pattern(images, tmp_path):
    assert list(images) == ["a.png", "b.png", "more/c.png"]
    assert list(find_images(f"{tmp_path}/photos/more/c.png")) == ["c.png"]
    assert list(find_images(f"{tmp_path}/*/a.png")) == ["photos/a.png"]
    with pytest.raises(InputError, match=r"\*\.tif"):
        find_images(f"{tmp_path}/photos/*.tif")


def test_folders_several_patterns_and_braces(images, tmp_path, monkeypatch):
    photos = tmp_path / "photos"
    assert list(find_images(str(photos))) == list(images)
    assert list(find_images(f"{photos}/{{a,b}}.png")) == ["a.png", "b.png"]
    assert list(find_images(f"{photos}/b.png,{photos}/more")) == ["b.png", "more/c.png"]
    monkeypatch.chdir(photos)
    assert list(find_images("{a,b}.png,more/*.png")) == list(images)


def test_a_comma_may_be_part_of_a_name(images, tmp_path):
    (tmp_path / "a,b").mkdir()
    cv2.imwrite(str(tmp_path / "a,b" / "c.png"), np.zeros((9, 9), np.uint8))
    assert list(find_images(str(tmp_path / "a,b"))) == ["c.png"]
