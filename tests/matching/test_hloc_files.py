"""Reads the files as hloc's own readers do, by the layout that it publishes."""

import cv2
import h5py
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.features import similarity_frames
from doap_tf.matching import Features, MatchStore, write_hloc
from doap_tf.matching.match_store import StoredMatches

RANDOM = np.random.default_rng(0)


def features(count, norm=cv2.NORM_L2):
    frames = similarity_frames(*RANDOM.uniform(1, 3000, (3, count)), RANDOM.uniform(-3, 3, count))
    rows = RANDOM.normal(size=(count, 16)).astype(np.float32)
    if norm == cv2.NORM_HAMMING:
        rows = RANDOM.integers(0, 256, (count, 2), np.uint8)
    return Features(frames, RANDOM.uniform(size=count).astype(np.float32), rows, norm, (640, 480))


def store_with(tmp_path, images, pairs):
    store = MatchStore(tmp_path / "finished.db", {})
    for name, content in images.items():
        store.write_features(name, "0", content)
    for pair, matches in pairs.items():
        store.write_pair(*pair, matches)
    return store


def matches_of(indices):
    count = len(indices)
    scores = np.linspace(0.5, 1, count, dtype=np.float32)
    indices = np.array(indices, np.int64).reshape(-1, 2)
    return StoredMatches(indices, scores, np.arange(count) % 2 == 0, None, None, None)


def read_matches(path, name0, name1):
    """Pairs of rows and their scores: whichever way round the pair was written."""
    with h5py.File(path) as file:
        key, reverse = f"{name0.replace('/', '-')}/{name1.replace('/', '-')}", False
        if key not in file:
            key, reverse = f"{name1.replace('/', '-')}/{name0.replace('/', '-')}", True
        column, scores = file[key]["matches0"][()], file[key]["matching_scores0"][()]
    rows = np.flatnonzero(column != -1)
    pairs = np.stack([rows, column[rows]], axis=1)
    return (pairs[:, ::-1] if reverse else pairs), scores[rows]


def test_features_are_in_hlocs_layout(tmp_path):
    images = {"day/1.jpg": features(7), "night.jpg": features(0), "bits.png": features(5, 6)}
    with store_with(tmp_path, images, {}) as store:
        write_hloc(store, list(images), [], tmp_path / "out")
    names = set()
    with h5py.File(tmp_path / "out/features.h5") as file:
        file.visititems(
            lambda name, item: (
                names.add(item.parent.name.strip("/")) if isinstance(item, h5py.Dataset) else None
            )
        )
        assert names == set(images)
        for name, expected in images.items():
            group = file[name]
            count = len(expected.frames)
            np.testing.assert_allclose(group["keypoints"], expected.points, rtol=1e-6)
            assert group["keypoints"].shape == (count, 2)
            assert group["keypoints"].dtype == np.float32
            np.testing.assert_array_equal(group["scores"], expected.responses)
            np.testing.assert_array_equal(group["image_size"], [640, 480])
            np.testing.assert_allclose(
                np.linalg.norm(group["descriptors"][()].astype(float), axis=0), 1, atol=2e-3
            )
            np.testing.assert_allclose(group["scales"], expected.scales, rtol=1e-6)
            np.testing.assert_allclose(group["oris"], np.degrees(expected.angles), rtol=1e-5)
        expected = images["day/1.jpg"].descriptors
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(file["day/1.jpg/descriptors"][()], expected.T, atol=1e-3)


def test_matches_are_in_hlocs_layout(tmp_path):
    images = {"day/1.jpg": features(7), "night.jpg": features(9), "dark.jpg": features(0)}
    pairs = {
        ("day/1.jpg", "night.jpg"): matches_of([(0, 8), (3, 0), (6, 4)]),
        ("dark.jpg", "night.jpg"): matches_of([]),
    }
    with store_with(tmp_path, images, pairs) as store:
        write_hloc(store, list(images), list(pairs), tmp_path / "out")
    path = tmp_path / "out/matches.h5"
    indices, scores = read_matches(path, "day/1.jpg", "night.jpg")
    assert indices.tolist() == [[0, 8], [3, 0], [6, 4]] and scores.tolist() == [0.5, 0.75, 1.0]
    assert read_matches(path, "night.jpg", "day/1.jpg")[0].tolist() == [[8, 0], [0, 3], [4, 6]]
    assert len(read_matches(path, "dark.jpg", "night.jpg")[0]) == 0
    with h5py.File(path) as file:
        group = file["day-1.jpg/night.jpg"]
        assert group["matches0"].shape == group["matching_scores0"].shape == (7,)
        assert np.flatnonzero(group["inliers0"]).tolist() == [0, 6]
    lines = (tmp_path / "out/pairs.txt").read_text().splitlines()
    assert lines == ["day/1.jpg night.jpg", "dark.jpg night.jpg"]


def test_more_features_than_16_bits_count_are_matched(tmp_path):
    images = {"a": features(2), "b": features(40_000)}
    with store_with(tmp_path, images, {("a", "b"): matches_of([(1, 39_999)])}) as store:
        write_hloc(store, ["a", "b"], [("a", "b")], tmp_path)
    assert read_matches(tmp_path / "matches.h5", "a", "b")[0].tolist() == [[1, 39_999]]


@pytest.mark.parametrize(
    ("names", "refused"), [(["a/b.jpg", "a-b.jpg"], r"a-b\.jpg"), (["my b.jpg"], "'my b.jpg'")]
)
def test_names_that_hloc_confuses_are_refused(tmp_path, names, refused):
    images = {name: features(1) for name in (*names, "c.jpg")}
    pairs = {(name, "c.jpg"): matches_of([]) for name in names}
    with store_with(tmp_path, images, pairs) as store, pytest.raises(InputError, match=refused):
        write_hloc(store, list(images), list(pairs), tmp_path / "out")
    assert not (tmp_path / "out").exists()
