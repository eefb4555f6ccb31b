import os
import threading

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.parallel import map_ahead
from doap_tf.readers.mosaics import (
    iterate_groups,
    list_mosaics,
    read_mosaic,
    read_pairs,
    read_patches,
    read_point_ids,
)
from tests import layouts


@pytest.fixture
def ubc(tmp_path):
    folder = tmp_path / "ubc"
    patches, points = layouts.write_ubc(folder)
    return folder, patches, points


def test_tiles_are_read_row_by_row(tmp_path):
    mosaic = np.zeros((1024, 1024), np.uint8)
    mosaic[64:128, 128:192] = 7
    cv2.imwrite(str(tmp_path / "patches0000.png"), mosaic)
    tiles = read_mosaic(tmp_path / "patches0000.png")
    assert np.flatnonzero(tiles.any(axis=(1, 2))).tolist() == [16 + 2]
    assert (tiles[18] == 7).all()


def test_groups_hold_every_patch_once(ubc):
    folder, patches, points = ubc
    groups = list(iterate_groups(folder))
    assert [group.point_id for group in groups] == list(dict.fromkeys(points.tolist()))
    np.testing.assert_array_equal(
        np.concatenate([group.patch_ids for group in groups]), np.arange(len(patches))
    )
    np.testing.assert_array_equal(np.concatenate([group.patches for group in groups]), patches)


def test_scattered_points_become_whole_groups(ubc):
    folder, patches, points = ubc
    scattered = np.random.default_rng(1).permutation(points)
    (folder / "info.txt").write_text("".join(f"{point} 0\n" for point in scattered))
    groups = list(iterate_groups(folder))
    assert sorted(group.point_id for group in groups) == np.unique(points).tolist()
    for group in groups:
        assert group.patch_ids.tolist() == np.flatnonzero(scattered == group.point_id).tolist()
        np.testing.assert_array_equal(group.patches, patches[group.patch_ids])


def test_a_plain_list_of_groups_and_another_image_format_will_do(tmp_path):
    patches, points = layouts.write_ubc(tmp_path, groups=9, suffix=".webp")
    (tmp_path / "info.txt").unlink()
    (tmp_path / "groups.txt").write_text("".join(f"{point}\n" for point in points))
    np.testing.assert_array_equal(read_point_ids(tmp_path), points)
    read = np.concatenate([group.patches for group in iterate_groups(tmp_path)])
    assert np.abs(read.astype(int) - patches).mean() < 3


def test_patches_come_in_the_order_asked_for(ubc):
    folder, patches, _ = ubc
    ids = np.array([300, 0, 299, 300, 5])
    np.testing.assert_array_equal(read_patches(folder, ids), patches[ids])
    assert read_patches(folder, np.array([], int)).shape == (0, 64, 64)


def test_pairs_agree_with_the_points(ubc):
    folder, _, points = ubc
    pairs = read_pairs(folder)
    np.testing.assert_array_equal(points[pairs.patch_ids], pairs.point_ids)
    assert pairs.matches.sum() == 20 and len(pairs.matches) == 40


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def drop_lines(path, count):
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-count]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: truncate(f / "patches0001.bmp"), "patches0001.bmp .* not an image"),
        (lambda f: (f / "patches0001.bmp").write_bytes(b""), "patches0001.bmp .* not an image"),
        (lambda f: (f / "patches0000.bmp").unlink(), "patches0001.bmp in place of mosaic 0"),
        (lambda f: (f / "patches0001.bmp").unlink(), "info.txt has 360 lines, but 1 mosaics"),
        (
            lambda f: (f / "patches0001.webp").write_bytes((f / "patches0001.bmp").read_bytes()),
            "patches0001.webp in place of mosaic 2",
        ),
        (
            lambda f: cv2.imwrite(str(f / "patches0001.bmp"), np.zeros((512, 1024), np.uint8)),
            "is 1024×512 pixels; a mosaic has 1024×1024",
        ),
        (lambda f: drop_lines(f / "info.txt", 200), "info.txt has 160 lines, but 2 mosaics"),
        (lambda f: (f / "info.txt").unlink(), "info.txt not found"),
        (lambda f: (f / "info.txt").write_text(""), "not a table"),
        (lambda f: (f / "info.txt").write_text("0 0\nhello\n"), "not a table"),
        (lambda f: (f / "info.txt").write_text("0.5 0\n" * 360), "not a table"),
        (
            lambda f: (f / "info.txt").write_bytes(b"\xff\xfe\x00" * 99),
            "not a table",
        ),
    ],
)
def test_damaged_folders_are_refused(ubc, damage, message):
    folder, _, _ = ubc
    damage(folder)
    with pytest.raises(InputError, match=message):
        list(iterate_groups(folder))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("", "not a table"),
        ("0 0 0 1\n", "not a table"),
        ("0 0 0 1 0 0 0\n0 0 0 9999 9 0 0\n", "names patch 9999"),
        ("0 0 0 1 0 0 0\n0 0 0 350 1 0 0\n", "line 2 of .* names other points"),
    ],
)
def test_damaged_pairs_are_refused(ubc, lines, message):
    folder, _, _ = ubc
    (folder / "m50_100000_100000_0.txt").write_text(lines)
    with pytest.raises(InputError, match=message):
        read_pairs(folder)


def test_missing_pairs_are_named(ubc):
    folder, _, _ = ubc
    (folder / "m50_100000_100000_0.txt").unlink()
    with pytest.raises(InputError, match=r"m50_100000_100000_0\.txt not found"):
        read_pairs(folder)


def test_a_folder_without_mosaics_is_named(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path} holds no mosaic"):
        list_mosaics(tmp_path)


def test_reading_ahead_is_bounded():
    allowed = 2 * (os.cpu_count() or 1) + 1
    started, lock = [], threading.Lock()

    def read(item):
        with lock:
            started.append(item)
        return item

    results = map_ahead(read, range(100))
    for count in range(1, 100):
        assert next(results) == count - 1
        assert len(started) <= count + allowed
    assert list(results) == [99]
