"""Reads the database by COLMAP's published schema: https://colmap.github.io/database.html."""

import dataclasses
import sqlite3

import cv2
import numpy as np
import pytest

from doap_tf.features import similarity_frames
from doap_tf.features.frames import transform_points
from doap_tf.matching import Cameras, Features, MatchStore, write_colmap
from doap_tf.matching.colmap_database import pair_id
from doap_tf.matching.match_store import StoredMatches
from doap_tf.matching.model_residuals import model_residuals
from tests.matching.scene import HOMOGRAPHY

RANDOM = np.random.default_rng(0)
FUNDAMENTAL = np.array([[1e-6, -2e-5, 0.01], [3e-5, 2e-6, -0.02], [-0.012, 0.015, 1.0]])

# Columns as COLMAP's releases create them: * for the key, ? for what may be NULL.
SCHEMA = {
    "cameras": "camera_id* model width height params? prior_focal_length",
    "images": "image_id* name camera_id "
    "prior_qw? prior_qx? prior_qy? prior_qz? prior_tx? prior_ty? prior_tz?",
    "keypoints": "image_id* rows cols data?",
    "descriptors": "image_id* rows cols data?",
    "matches": "pair_id* rows cols data?",
    "two_view_geometries": "pair_id* rows cols data? config F? E? H? qvec? tvec?",
}


def features(points, norm=cv2.NORM_L2, size=(640, 480)):
    count = len(points)
    frames = similarity_frames(*points.T, RANDOM.uniform(1, 9, count), RANDOM.uniform(-3, 3, count))
    frames[:, 0, 0] *= 1.5
    rows = RANDOM.normal(size=(count, 128)).astype(np.float32)
    if norm == cv2.NORM_HAMMING:
        rows = RANDOM.integers(0, 256, (count, 32), np.uint8)
    return Features(frames, np.zeros(count, np.float32), rows, norm, size)


def written(tmp_path, geometry="homography", model=HOMOGRAPHY, count=40, confidence=0.9, **kwargs):
    """Three images of which the second and the first match, in this order, all but five rows."""
    points1 = RANDOM.uniform(50, 300, (count, 2))
    first, second = features(transform_points(points1, HOMOGRAPHY)), features(points1)
    images = {"a.jpg": first, "b/b.jpg": second, "c.jpg": features(points1[:0])}
    indices = np.stack([np.arange(count)] * 2, axis=1)
    indices[:, 1] = indices[::-1, 1]
    images["a.jpg"] = Features(
        first.frames[::-1], first.responses, first.descriptors[::-1], first.norm, first.image_size
    )
    inliers = np.arange(count) < count - 5
    scores = np.ones(count, np.float32)
    matches = StoredMatches(indices, scores, inliers, model, geometry, confidence)
    with MatchStore(tmp_path / "finished.db", {}) as store:
        for name, content in images.items():
            store.write_features(name, "0", content)
        store.write_pair("b/b.jpg", "a.jpg", matches)
        empty = StoredMatches(indices[:0], scores[:0], inliers[:0], None, geometry, 0.0)
        store.write_pair("a.jpg", "c.jpg", empty)
        pairs = [("b/b.jpg", "a.jpg"), ("a.jpg", "c.jpg")]
        write_colmap(store, list(images), pairs, tmp_path / "database.db", **kwargs)
    return images, matches, sqlite3.connect(tmp_path / "database.db")


def matrix(blob, dtype, shape):
    return np.frombuffer(blob, dtype).reshape(shape)


def read_matrices(database, table, key):
    """Rows by id from a table of COLMAP's, which keeps its matrices row by row."""
    query = f"SELECT {key}, rows, cols, data FROM {table}"
    dtype = {"keypoints": np.float32, "descriptors": np.uint8}.get(table, np.uint32)
    return {
        number: matrix(data, dtype, (rows, columns))
        for number, rows, columns, data in database.execute(query)
    }


def test_tables_are_those_that_colmap_publishes(tmp_path):
    *_, database = written(tmp_path)
    for table, columns in SCHEMA.items():
        found = " ".join(
            name + ("*" if key else "" if not_null else "?")
            for _, name, _, not_null, _, key in database.execute(f"PRAGMA table_info({table})")
        )
        assert found == columns
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert not database.execute("PRAGMA foreign_key_check").fetchall()


def test_pair_ids_follow_colmaps_formula():
    assert pair_id(3, 7) == pair_id(7, 3) == 3 * 2147483647 + 7
    second = pair_id(3, 7) % 2147483647
    assert (second, (pair_id(3, 7) - second) / 2147483647) == (7, 3)


def test_images_have_cameras_with_colmaps_guess(tmp_path):
    *_, database = written(tmp_path)
    rows = database.execute(
        "SELECT image_id, name, model, width, height, params, prior_focal_length "
        "FROM images JOIN cameras USING (camera_id) ORDER BY image_id"
    ).fetchall()
    assert [row[:2] for row in rows] == [(1, "a.jpg"), (2, "b/b.jpg"), (3, "c.jpg")]
    for row in rows:
        assert row[2:5] == (2, 640, 480) and row[6] == 0  # SIMPLE_RADIAL: f, cx, cy, k
        assert matrix(row[5], float, 4).tolist() == [1.2 * 640, 320, 240, 0]


def test_known_intrinsics_make_one_camera(tmp_path):
    intrinsics = np.array([[700.0, 0, 319.5], [0, 710, 239.5], [0, 0, 1]])
    *_, database = written(tmp_path, cameras=Cameras(intrinsics=intrinsics))
    (row,) = database.execute("SELECT model, params, prior_focal_length FROM cameras").fetchall()
    assert row[0] == 1 and row[2] == 1  # PINHOLE: fx, fy, cx, cy
    assert matrix(row[1], float, 4).tolist() == [700, 710, 320, 240]
    cameras = database.execute("SELECT DISTINCT camera_id FROM images").fetchall()
    assert len(cameras) == 1


def test_keypoints_are_affine_with_the_first_pixels_corner_at_the_origin(tmp_path):
    images, _, database = written(tmp_path)
    keypoints = read_matrices(database, "keypoints", "image_id")
    for number, content in enumerate(images.values(), start=1):
        expected = np.hstack([content.points + 0.5, content.frames[:, :, :2].reshape(-1, 4)])
        assert keypoints[number].shape == (len(content.frames), 6)
        np.testing.assert_allclose(keypoints[number], expected, rtol=1e-6)


def test_descriptors_are_bytes_that_keep_distances(tmp_path):
    images, _, database = written(tmp_path)
    bytes_ = read_matrices(database, "descriptors", "image_id")[1].astype(float)
    rows = images["a.jpg"].descriptors
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    exact = np.linalg.norm(rows[:, None] - rows, axis=2)
    coarse = np.linalg.norm(bytes_[:, None] - bytes_, axis=2) / 256
    np.testing.assert_allclose(coarse, exact, atol=0.03)


@pytest.mark.parametrize(
    "rows", [np.zeros((6, 32), np.uint8), np.zeros((6, 64), np.float32)], ids=["bits", "64 values"]
)
def test_descriptors_that_cannot_be_sifts_are_left_out(tmp_path, rows):
    norm = cv2.NORM_HAMMING if rows.dtype == np.uint8 else cv2.NORM_L2
    content = features(RANDOM.uniform(0, 99, (6, 2)))
    content = dataclasses.replace(content, descriptors=rows, norm=norm)
    with MatchStore(tmp_path / "finished.db", {}) as store:
        store.write_features("a", "0", content)
        write_colmap(store, ["a"], [], tmp_path / "database.db")
    database = sqlite3.connect(tmp_path / "database.db")
    assert not read_matrices(database, "descriptors", "image_id")
    assert read_matrices(database, "keypoints", "image_id")[1].shape == (6, 6)
    assert database.execute("SELECT COUNT(*) FROM two_view_geometries").fetchone() == (0,)


def test_matches_count_from_the_lower_image(tmp_path):
    _, matches, database = written(tmp_path)
    found = read_matrices(database, "matches", "pair_id")
    np.testing.assert_array_equal(found[pair_id(1, 2)], matches.indices[:, ::-1])
    assert found[pair_id(1, 3)].shape == (0, 2)
    inliers = read_matrices(database, "two_view_geometries", "pair_id")[pair_id(1, 2)]
    np.testing.assert_array_equal(inliers, matches.indices[matches.inliers][:, ::-1])


def matched_points(database):
    """COLMAP's pixels of the inliers, in the lower and the higher image."""
    keypoints = read_matrices(database, "keypoints", "image_id")
    inliers = read_matrices(database, "two_view_geometries", "pair_id")[pair_id(1, 2)]
    return [keypoints[side + 1][inliers[:, side], :2].astype(float) for side in (0, 1)]


def geometry_row(database, number):
    query = "SELECT config, F, E, H, qvec, tvec FROM two_view_geometries WHERE pair_id = ?"
    return database.execute(query, (number,)).fetchone()


def test_a_homography_maps_colmaps_pixels(tmp_path):
    *_, database = written(tmp_path)
    config, fundamental, essential, homography, rotation, translation = geometry_row(
        database, pair_id(1, 2)
    )
    assert (config, fundamental, essential) == (6, None, None)
    first, second = matched_points(database)
    np.testing.assert_allclose(
        transform_points(first, matrix(homography, float, (3, 3))), second, atol=1e-2
    )
    assert matrix(rotation, float, 4).tolist() == [1, 0, 0, 0]
    assert matrix(translation, float, 3).tolist() == [0, 0, 0]


def test_a_fundamental_matrix_speaks_of_colmaps_pixels(tmp_path):
    images, matches, database = written(tmp_path, "fundamental", FUNDAMENTAL)
    config, blob, essential, homography, *_ = geometry_row(database, pair_id(1, 2))
    assert (config, essential, homography) == (3, None, None)
    first, second = matched_points(database)
    indices = matches.indices[matches.inliers]
    points1 = images["b/b.jpg"].points[indices[:, 0]]
    points2 = images["a.jpg"].points[indices[:, 1]]
    np.testing.assert_allclose(
        model_residuals(first, second, "fundamental", matrix(blob, float, (3, 3))),
        model_residuals(points1, points2, "fundamental", FUNDAMENTAL),
        atol=1e-3,
    )


def test_an_essential_matrix_is_turned_round_with_its_pair(tmp_path):
    *_, database = written(tmp_path, "essential", FUNDAMENTAL)
    config, _, blob, _, *_ = geometry_row(database, pair_id(1, 2))
    assert config == 2
    np.testing.assert_array_equal(matrix(blob, float, (3, 3)), FUNDAMENTAL.T)


@pytest.mark.parametrize(("model", "confidence"), [(None, 0.0), (HOMOGRAPHY, 0.49)])
def test_geometries_by_chance_are_degenerate(tmp_path, model, confidence):
    *_, database = written(tmp_path, model=model, confidence=confidence)
    for number in (pair_id(1, 2), pair_id(1, 3)):
        assert geometry_row(database, number)[:4] == (1, None, None, None)
    inliers = read_matrices(database, "two_view_geometries", "pair_id")
    assert inliers[pair_id(1, 2)].shape == (0, 2)
    assert read_matrices(database, "matches", "pair_id")[pair_id(1, 2)].shape == (40, 2)


def test_an_older_database_is_replaced(tmp_path):
    written(tmp_path)[-1].close()
    (tmp_path / "finished.db").unlink()
    *_, database = written(tmp_path)
    assert database.execute("SELECT COUNT(*) FROM images").fetchone() == (3,)
