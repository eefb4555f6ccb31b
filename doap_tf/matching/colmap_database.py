"""Writing features and matches as a COLMAP database."""

import contextlib
import os
import sqlite3
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from doap_tf.errors import writing_to
from doap_tf.files import write_atomically
from doap_tf.matching.cameras import Camera, Cameras
from doap_tf.matching.image_features import Features, unit_rows
from doap_tf.matching.match_store import MatchStore, StoredMatches
from doap_tf.matching.pair_selection import Pair
from doap_tf.matching.verdict import is_reliable
from doap_tf.metrics import NORM_HAMMING
from doap_tf.readers.colmap_model import CAMERA_MODELS

# COLMAP's tables as documented and as created by its releases since 3.6; later releases add the
# tables for rigs and frames when they open such a file.
_MATRIX = "rows INTEGER NOT NULL, cols INTEGER NOT NULL, data BLOB"
_OF_IMAGE = f"""
    image_id INTEGER PRIMARY KEY NOT NULL, {_MATRIX},
    FOREIGN KEY (image_id) REFERENCES images (image_id) ON DELETE CASCADE"""
_SCHEMA = f"""
CREATE TABLE cameras (
    camera_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    model INTEGER NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL,
    params BLOB, prior_focal_length INTEGER NOT NULL);
CREATE TABLE images (
    image_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
    name TEXT NOT NULL UNIQUE, camera_id INTEGER NOT NULL,
    prior_qw REAL, prior_qx REAL, prior_qy REAL, prior_qz REAL,
    prior_tx REAL, prior_ty REAL, prior_tz REAL,
    CONSTRAINT image_id_check CHECK (image_id >= 0 AND image_id < 2147483647),
    FOREIGN KEY (camera_id) REFERENCES cameras (camera_id));
CREATE UNIQUE INDEX index_name ON images (name);
CREATE TABLE keypoints ({_OF_IMAGE});
CREATE TABLE descriptors ({_OF_IMAGE});
CREATE TABLE matches (pair_id INTEGER PRIMARY KEY NOT NULL, {_MATRIX});
CREATE TABLE two_view_geometries (
    pair_id INTEGER PRIMARY KEY NOT NULL, {_MATRIX}, config INTEGER NOT NULL,
    F BLOB, E BLOB, H BLOB, qvec BLOB, tvec BLOB);
"""

_MAX_IMAGES = 2**31 - 1
_SIFT_DIMENSION = 128
_DEGENERATE = 1
#: COLMAP's number for each geometry, and the column of its matrix.
_CONFIGURATIONS = {"essential": (2, "E"), "fundamental": (3, "F"), "homography": (6, "H")}
# COLMAP puts the corner of the first pixel at the origin, doap_tf its centre.
_SHIFT = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])


def pair_id(image_id1: int, image_id2: int) -> int:
    """COLMAP's identifier of a pair of images."""
    first, second = sorted((image_id1, image_id2))
    return first * _MAX_IMAGES + second


def write_colmap(
    store: MatchStore,
    names: Sequence[str],
    pairs: Sequence[Pair],
    path: str | os.PathLike,
    cameras: Cameras | None = None,
) -> None:
    """Writes a database with cameras, images, features, matches and verified geometries.

    The geometry of a pair is the one that its matches were verified by; that of a pair that is not
    reliable is degenerate.

    Descriptors of 128 values are rounded to bytes, unit rows as 128 + 256·v. They serve retrieval,
    not matching: COLMAP takes every descriptor for SIFT. Bits, and rows of another length, are left
    out.

    Args:
        store: Holds the features of `names` and the matches of `pairs`.
        names: The images, as paths below COLMAP's image folder.
        pairs: Names of matched images.
        path: The file; an existing one is replaced.
        cameras: Finds the camera of each image; by default each has its own, of COLMAP's guess.
    """
    with (
        writing_to(path, sqlite3.OperationalError),
        write_atomically(path) as temporary,
        contextlib.closing(sqlite3.connect(temporary)) as database,
        database,
    ):
        database.executescript(_SCHEMA)
        image_ids = {name: number for number, name in enumerate(names, start=1)}
        cameras = cameras or Cameras()
        added: set[int] = set()
        for name, image in image_ids.items():
            features = store.read_features(name)
            number, camera = cameras.find(name, features.image_size)
            if number not in added:
                added.add(number)
                _add_camera(database, number, camera)
            _add_image(database, image, name, number, features)
        for name1, name2 in pairs:
            matches = store.read_pair(name1, name2)
            key = pair_id(image_ids[name1], image_ids[name2])
            swapped = image_ids[name1] > image_ids[name2]
            if swapped:
                matches = matches._replace(indices=matches.indices[:, ::-1])
            _add_matrix(database, "matches", key, matches.indices, "<u4")
            if matches.geometry is not None:
                _add_geometry(database, key, matches, swapped)


def _add_camera(database: sqlite3.Connection, number: int, camera: Camera) -> None:
    model = list(CAMERA_MODELS).index(camera.model)
    parameters = _bytes(camera.parameters)
    database.execute(
        "INSERT INTO cameras VALUES (?, ?, ?, ?, ?, ?)",
        (number, model, *camera.size, parameters, camera.has_prior),
    )


def _add_image(
    database: sqlite3.Connection, image: int, name: str, camera: int, features: Features
) -> None:
    database.execute(
        "INSERT INTO images (image_id, name, camera_id) VALUES (?, ?, ?)", (image, name, camera)
    )
    # x, y and the affine shape, row by row.
    keypoints = np.hstack([features.points + 0.5, features.frames[:, :, :2].reshape(-1, 4)])
    _add_matrix(database, "keypoints", image, keypoints, "<f4")
    if features.norm != NORM_HAMMING and features.descriptors.shape[1] == _SIFT_DIMENSION:
        rows = unit_rows(features.descriptors, features.norm)
        bytes_ = np.clip(np.rint(128 + 256 * rows), 0, 255)
        _add_matrix(database, "descriptors", image, bytes_, "u1")


def _add_matrix(
    database: sqlite3.Connection, table: str, key: int, values: np.ndarray, dtype: str
) -> None:
    database.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", (key, *_blob(values, dtype)))


def _add_geometry(
    database: sqlite3.Connection, key: int, matches: StoredMatches, swapped: bool
) -> None:
    geometry, model = matches.geometry, matches.model
    configuration, inliers = _DEGENERATE, matches.indices[:0]
    matrices: dict[str, bytes] = {}
    if geometry is not None and model is not None and is_reliable(matches.confidence):
        configuration, column = _CONFIGURATIONS[geometry]
        inliers = matches.indices[matches.inliers]
        matrices[column] = _bytes(_in_colmap_pixels(model, geometry, swapped))
    database.execute(
        "INSERT INTO two_view_geometries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            key,
            *_blob(inliers, "<u4"),
            configuration,
            *(matrices.get(name) for name in "FEH"),
            # The identity: COLMAP estimates the pose itself.
            _bytes([1, 0, 0, 0]),
            _bytes([0, 0, 0]),
        ),
    )


def _in_colmap_pixels(model: np.ndarray, geometry: str, swapped: bool) -> np.ndarray:
    unshift = np.linalg.inv(_SHIFT)
    if geometry == "homography":
        return _SHIFT @ (np.linalg.inv(model) if swapped else model) @ unshift
    matrix = model.T if swapped else model
    # An essential matrix relates rays and does not depend on pixels.
    return unshift.T @ matrix @ unshift if geometry == "fundamental" else matrix


def _bytes(values: npt.ArrayLike) -> bytes:
    return np.ascontiguousarray(values, "<f8").tobytes()


def _blob(values: np.ndarray, dtype: str) -> tuple[int, int, bytes]:
    """Rows, columns and row-major bytes, as COLMAP stores matrices."""
    return *values.shape, np.ascontiguousarray(values, dtype).tobytes()
