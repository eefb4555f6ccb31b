import contextlib
import sqlite3
import threading

import cv2
import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.features import detect
from doap_tf.matching import (
    DescriptorExtractor,
    MatchStore,
    NearestNeighbours,
    Pipeline,
    Verifier,
    exhaustive_pairs,
    find_images,
    match_features,
    pipeline,
)
from doap_tf.matching.image_features import unit_rows
from doap_tf.matching.pipeline import collection_report
from doap_tf.metrics import distance_matrix
from doap_tf.readers.images import read_image, read_upright
from tests.matching.scene import views


class Counting(DescriptorExtractor):
    """Counts what it describes; raises what it is told to at one image."""

    def __init__(self, fail_at=None, error=None):
        super().__init__("sift", max_keypoints=80)
        self.count, self.fail_at, self.error = 0, fail_at, error

    def describe(self, image, frames, responses=None):
        self.count += 1
        if self.count == self.fail_at:
            raise self.error
        return super().describe(image, frames, responses)


class CountingMatcher(NearestNeighbours):
    count = 0

    def match(self, features1, features2):
        type(self).count += 1
        return super().match(features1, features2)


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "photos"
    (folder / "more").mkdir(parents=True)
    first, second = views()
    for name, image in (("a.png", first), ("b.png", second), ("more/c.png", first[20:])):
        cv2.imwrite(str(folder / name), image)
    return find_images(f"{folder}/**/*.png")


def run(images, folder, extractor=None, matcher=None, pairs=None):
    steps = extractor or Counting(), matcher or NearestNeighbours(), Verifier()
    with Pipeline(folder, *steps) as pipeline:
        outcome = pipeline.run(images, pairs or exhaustive_pairs(list(images)))
        kept = {pair: pipeline.store.read_pair(*pair) for pair in outcome.pairs}
        features = {name: pipeline.store.read_features(name) for name in outcome.names}
    return outcome, kept, features


def test_what_is_kept_is_what_was_found(images, tmp_path):
    outcome, kept, features = run(images, tmp_path / "out")
    assert outcome.names == list(images) and len(outcome.pairs) == 3 and not outcome.failures
    extractor = DescriptorExtractor("sift", max_keypoints=80)
    found = [extractor.extract(image) for image in views()]
    pair = match_features(*found)
    stored = kept["a.png", "b.png"]
    np.testing.assert_array_equal(stored.indices, pair.indices)
    np.testing.assert_array_equal(stored.inliers, pair.inliers)
    np.testing.assert_array_equal(stored.model, pair.model)
    for name, expected in zip(("a.png", "b.png"), found, strict=True):
        for field in ("frames", "responses", "descriptors"):
            np.testing.assert_array_equal(getattr(features[name], field), getattr(expected, field))
        assert (features[name].norm, features[name].image_size) == (cv2.NORM_L2, (400, 300))
    rows = [
        features.descriptors[side] / np.linalg.norm(features.descriptors[side], axis=1)[:, None]
        for features, side in zip(found, pair.indices.T, strict=True)
    ]
    np.testing.assert_allclose(
        stored.scores, 1 - np.square(rows[0] - rows[1]).sum(axis=1) / 4, atol=1e-5
    )


def test_an_image_is_described_while_the_next_is_read(images, tmp_path, monkeypatch):
    extractor = DescriptorExtractor("sift", max_keypoints=80)
    expected = {
        name: extractor.extract(read_image(path, upright=False)) for name, path in images.items()
    }
    begun = {path: threading.Event() for path in images.values()}

    def read(path):
        begun[path].set()
        return read_upright(path)

    def describe(image, frames, responses):
        assert begun[images["b.png"]].wait(60)
        return DescriptorExtractor.describe(extractor, image, frames, responses)

    monkeypatch.setattr(pipeline, "read_upright", read)
    monkeypatch.setattr(extractor, "describe", describe)
    outcome, _, features = run(images, tmp_path / "out", extractor)
    assert not outcome.failures and list(features) == list(images)
    for name, found in features.items():
        for field in ("frames", "responses", "descriptors", "norm", "image_size"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected[name], field))


def test_classes_of_the_callers_own_see_one_thread(images, tmp_path):
    detecting, describing = set(), set()

    class Own:
        norm, dimension, magnification = cv2.NORM_L2, 4, 5.0

        def detect(self, image, mask=None):
            detecting.add(threading.get_ident())
            return cv2.FastFeatureDetector.create(60).detect(image, mask)

        def settings(self):
            return {}

        def describe(self, patches, batch_size):
            describing.add(threading.get_ident())
            return np.ones((len(patches), 4), np.float32)

    extractor = DescriptorExtractor(Own(), Own(), max_keypoints=9)
    outcome, _, _ = run(images, tmp_path / "out", extractor)
    assert not outcome.failures and len(detecting) == 1
    assert describing == {threading.get_ident()}


def test_too_little_memory_while_others_are_worked_on_may_do_later(images, tmp_path, monkeypatch):
    def out_of_memory(*arguments):
        raise MemoryError

    def detect_later(*arguments):
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError
        return detect(*arguments)

    monkeypatch.setattr("doap_tf.matching.descriptor_extractor.detect", detect_later)
    assert len(run(images, tmp_path / "one")[0].names) == 3
    monkeypatch.setattr("doap_tf.matching.descriptor_extractor.detect", out_of_memory)
    failures = run(images, tmp_path / "none")[0].failures
    assert "400 × 300 pixels needs more memory than there is" in failures["a.png"]


def test_finished_work_is_not_redone(images, tmp_path):
    first = run(images, tmp_path / "out")
    extractor, matcher = Counting(), CountingMatcher()
    CountingMatcher.count = 0
    second = run(images, tmp_path / "out", extractor, matcher)
    assert extractor.count == CountingMatcher.count == 0
    assert second[0] == first[0]


@pytest.mark.parametrize("fail_at", [1, 3])
def test_an_interrupted_run_resumes_where_it_stopped(images, tmp_path, fail_at):
    with pytest.raises(KeyboardInterrupt):
        run(images, tmp_path / "out", Counting(fail_at, KeyboardInterrupt()))
    extractor = Counting()
    outcome, kept, _ = run(images, tmp_path / "out", extractor)
    assert extractor.count == 3 - (fail_at - 1)
    fresh_outcome, fresh, _ = run(images, tmp_path / "fresh")
    assert outcome == fresh_outcome
    for pair, matches in fresh.items():
        for value, expected in zip(kept[pair], matches, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_a_changed_image_is_described_and_matched_again(images, tmp_path):
    run(images, tmp_path / "out")
    cv2.imwrite(str(images["b.png"]), views()[1][5:])
    extractor, matcher = Counting(), CountingMatcher()
    CountingMatcher.count = 0
    run(images, tmp_path / "out", extractor, matcher)
    assert (extractor.count, CountingMatcher.count) == (1, 2)


def test_what_fails_is_reported_skipped_and_tried_again(images, tmp_path):
    images["b.png"].write_bytes(b"no picture")
    outcome, _, _ = run(images, tmp_path / "out")
    assert outcome.names == ["a.png", "more/c.png"]
    assert outcome.pairs == [("a.png", "more/c.png")]
    assert set(outcome.failures) == {"b.png"} and outcome.left_out == 2
    assert "b.png" in outcome.failures["b.png"]
    cv2.imwrite(str(images["b.png"]), views()[1])
    outcome, _, _ = run(images, tmp_path / "out")
    assert len(outcome.pairs) == 3 and not outcome.failures


def test_one_image_that_breaks_something_does_not_stop_the_others(images, tmp_path):
    outcome, _, _ = run(images, tmp_path / "a", Counting(2, cv2.error("two\n lines")))
    assert outcome.failures["b.png"] == "error: two lines"
    assert outcome.pairs == [("a.png", "more/c.png")]


def test_failed_pairs_whose_names_have_spaces_are_told_apart(images, tmp_path):
    class Refusing(NearestNeighbours):
        def match(self, features1, features2):
            if len(features1.frames) == 0:
                raise InputError("no features")
            return super().match(features1, features2)

    cv2.imwrite(str(images["a.png"]), np.zeros((9, 9), np.uint8))
    images = {"a": images["a.png"], **dict.fromkeys(("a b", "c", "b c"), images["b.png"])}
    with Pipeline(tmp_path / "out", Counting(), Refusing(), Verifier()) as pipeline:
        outcome = pipeline.run(images, [("a b", "c"), ("a", "b c")])
        report = collection_report(pipeline.store, outcome, {})
    assert outcome.pairs == [("a b", "c")]
    assert outcome.failed_pairs == {("a", "b c"): "no features"} and not outcome.failures
    assert report["failed_pairs"] == [{"image1": "a", "image2": "b c", "reason": "no features"}]


def test_failures_come_in_the_order_of_the_images(images, tmp_path):
    images["b.png"].write_bytes(b"no picture")
    images["more/c.png"].unlink()  # found out before b.png is read
    assert list(run(images, tmp_path / "a")[0].failures) == ["b.png", "more/c.png"]


def test_another_matcher_needs_no_new_features_and_keeps_the_old_matches(images, tmp_path):
    mutual, ratio = NearestNeighbours(), NearestNeighbours("mutual_ratio", ratio=0.7)
    extractor = Counting()
    CountingMatcher.count = 0
    kept = [
        run(images, tmp_path, extractor, matcher)[1]["a.png", "b.png"]
        for matcher in (mutual, ratio, CountingMatcher(ratio=0.9))
    ]
    assert extractor.count == len(images) and CountingMatcher.count == 0
    assert len(kept[1].indices) < len(kept[0].indices)
    np.testing.assert_array_equal(kept[2].indices, kept[0].indices)


def test_features_in_memory_are_bounded_by_their_bytes(images, tmp_path, monkeypatch):
    run(images, tmp_path / "out")
    with Pipeline(tmp_path / "out", Counting(), NearestNeighbours(), Verifier()) as matched:
        monkeypatch.setattr(
            pipeline, "_FEATURES_MB", 3.5 * matched.store.mean_feature_bytes() / 2**20
        )
        assert pipeline.images_in_memory(matched.store) == 3
        read = pipeline.features_reader(matched.store)
        assert read("a.png") is read("a.png")


def test_other_settings_require_another_store(images, tmp_path):
    run(images, tmp_path)
    with pytest.raises(InputError, match="descriptor = sift, not rootsift"):
        run(images, tmp_path, DescriptorExtractor("rootsift", max_keypoints=80))


def test_a_refused_store_is_closed(images, tmp_path, monkeypatch):
    run(images, tmp_path)
    connect, connections = sqlite3.connect, []

    def connect_noting(*arguments, **named):
        connections.append(connect(*arguments, **named))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", connect_noting)
    with pytest.raises(InputError):
        MatchStore(tmp_path / "finished.db", {"model": "orb"})
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connections[0].execute("SELECT 1")


def test_a_file_that_is_not_a_store_is_named(tmp_path):
    (tmp_path / "damaged.db").write_bytes(b"SQLite format 3\0" + b"nonsense" * 99)
    (tmp_path / "text.db").write_text("some text that is long enough to be no database" * 9)
    (tmp_path / "folder.db").mkdir()
    for name in ("damaged.db", "text.db", "folder.db"):
        with pytest.raises(InputError, match=name):
            MatchStore(tmp_path / name, {})


def test_a_store_of_another_version_is_refused(images, tmp_path):
    run(images, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "finished.db")) as database:
        database.execute("PRAGMA user_version = 0")
    with pytest.raises(InputError, match=r"finished\.db is of another version of doap_tf; choose"):
        run(images, tmp_path)


@pytest.mark.parametrize("damage", ["x'00'", "features || x'00'", "x'01' || substr(features, 2)"])
def test_damage_within_a_store_is_named(images, tmp_path, damage):
    run(images, tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "finished.db")) as database, database:
        database.execute(f"UPDATE images SET features = CAST({damage} AS BLOB)")
    with (
        Pipeline(tmp_path, Counting(), NearestNeighbours(), Verifier()) as pipeline,
        pytest.raises(InputError, match=r"finished\.db is damaged .*: delete it"),
    ):
        pipeline.store.read_features(sorted(images)[0])


def test_unit_rows_keep_the_order_of_distances():
    bits = np.random.default_rng(0).integers(0, 256, (20, 4), np.uint8)
    rows = unit_rows(bits, cv2.NORM_HAMMING)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    hamming = distance_matrix(bits, bits, cv2.NORM_HAMMING)
    np.testing.assert_allclose(rows @ rows.T, 1 - 2 * hamming / 32.0, atol=1e-6)
    assert np.isfinite(unit_rows(np.zeros((2, 8), np.float32), cv2.NORM_L2)).all()


def test_turned_photographs_are_described_upright_and_located_in_their_files(tmp_path):
    from PIL import Image

    upright = views()[0]
    exif = Image.Exif()
    exif[0x0112] = 6  # the file is a quarter turn to the left of what is seen
    path = tmp_path / "phone.jpg"
    Image.fromarray(np.ascontiguousarray(np.rot90(upright))).save(path, exif=exif, quality=100)
    extractor = DescriptorExtractor("sift", max_keypoints=50, oriented=False)
    expected = extractor.extract(read_image(path))
    assert expected.image_size == upright.shape[::-1]
    with Pipeline(tmp_path / "out", extractor, NearestNeighbours(), Verifier()) as matching:
        assert not matching.extract({"phone.jpg": path})
        features = matching.store.read_features("phone.jpg")
    height, width = read_image(path, upright=False).shape
    assert features.image_size == (width, height) == upright.shape
    x, y = expected.points.T
    np.testing.assert_allclose(features.points, np.stack([y, height - 1 - x], axis=1), atol=1e-3)
    np.testing.assert_array_equal(features.descriptors, expected.descriptors)
    np.testing.assert_allclose(np.exp(1j * features.angles), -1j, atol=1e-5)
    again = pipeline.extract_file(extractor, path)
    np.testing.assert_allclose(again.frames, features.frames, atol=1e-3)
