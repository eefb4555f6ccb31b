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
    Matcher,
    MatchStore,
    collection,
    collection_report,
    exhaustive_pairs,
    find_images,
    match_collection,
)
from doap_tf.matching.image_features import unit_rows
from doap_tf.metrics import distance_matrix
from doap_tf.readers.images import read_image
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


class CountingMatcher(Matcher):
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


def run(images, path, extractor=None, matcher=None, settings=None):
    with MatchStore(path, settings or {"model": "sift"}) as store:
        outcome = match_collection(
            images,
            exhaustive_pairs(list(images)),
            extractor or Counting(),
            matcher or Matcher(),
            store,
        )
        kept = {pair: store.read_pair(*pair) for pair in outcome.pairs}
        features = {name: store.read_features(name) for name in outcome.names}
    return outcome, kept, features


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


def test_what_is_kept_is_what_was_found(images, tmp_path):
    outcome, kept, features = run(images, tmp_path / "finished.db")
    assert outcome.names == list(images) and len(outcome.pairs) == 3 and not outcome.failures
    extractor = DescriptorExtractor("sift", max_keypoints=80)
    found = [extractor.extract(image) for image in views()]
    pair = Matcher().match(*found)
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

    def read(path, upright):
        begun[path].set()
        return read_image(path, upright=upright)

    def describe(image, frames, responses):
        assert begun[images["b.png"]].wait(60)
        return DescriptorExtractor.describe(extractor, image, frames, responses)

    monkeypatch.setattr(collection, "read_image", read)
    monkeypatch.setattr(extractor, "describe", describe)
    outcome, _, features = run(images, tmp_path / "finished.db", extractor)
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

        def describe(self, patches, batch_size):
            describing.add(threading.get_ident())
            return np.ones((len(patches), 4), np.float32)

    extractor = DescriptorExtractor(Own(), Own(), max_keypoints=9)
    outcome, _, _ = run(images, tmp_path / "finished.db", extractor)
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
    assert len(run(images, tmp_path / "one.db")[0].names) == 3
    monkeypatch.setattr("doap_tf.matching.descriptor_extractor.detect", out_of_memory)
    failures = run(images, tmp_path / "none.db")[0].failures
    assert "400 × 300 pixels needs more memory than there is" in failures["a.png"]


def test_finished_work_is_not_redone(images, tmp_path):
    first = run(images, tmp_path / "finished.db")
    extractor, matcher = Counting(), CountingMatcher()
    CountingMatcher.count = 0
    second = run(images, tmp_path / "finished.db", extractor, matcher)
    assert extractor.count == CountingMatcher.count == 0
    assert second[0] == first[0]


@pytest.mark.parametrize("fail_at", [1, 3])
def test_an_interrupted_run_resumes_where_it_stopped(images, tmp_path, fail_at):
    with pytest.raises(KeyboardInterrupt):
        run(images, tmp_path / "finished.db", Counting(fail_at, KeyboardInterrupt()))
    extractor = Counting()
    outcome, kept, _ = run(images, tmp_path / "finished.db", extractor)
    assert extractor.count == 3 - (fail_at - 1)
    fresh_outcome, fresh, _ = run(images, tmp_path / "fresh.db")
    assert outcome == fresh_outcome
    for pair, matches in fresh.items():
        for value, expected in zip(kept[pair], matches, strict=True):
            np.testing.assert_array_equal(value, expected)


def test_a_changed_image_is_described_and_matched_again(images, tmp_path):
    run(images, tmp_path / "finished.db")
    cv2.imwrite(str(images["b.png"]), views()[1][5:])
    extractor, matcher = Counting(), CountingMatcher()
    CountingMatcher.count = 0
    run(images, tmp_path / "finished.db", extractor, matcher)
    assert (extractor.count, CountingMatcher.count) == (1, 2)


def test_what_fails_is_reported_skipped_and_tried_again(images, tmp_path):
    images["b.png"].write_bytes(b"no picture")
    outcome, _, _ = run(images, tmp_path / "finished.db")
    assert outcome.names == ["a.png", "more/c.png"]
    assert outcome.pairs == [("a.png", "more/c.png")]
    assert set(outcome.failures) == {"b.png"} and outcome.left_out == 2
    assert "b.png" in outcome.failures["b.png"]
    cv2.imwrite(str(images["b.png"]), views()[1])
    outcome, _, _ = run(images, tmp_path / "finished.db")
    assert len(outcome.pairs) == 3 and not outcome.failures


def test_one_image_that_breaks_something_does_not_stop_the_others(images, tmp_path):
    outcome, _, _ = run(images, tmp_path / "a.db", Counting(2, cv2.error("two\n lines")))
    assert outcome.failures["b.png"] == "error: two lines"
    assert outcome.pairs == [("a.png", "more/c.png")]


def test_failed_pairs_whose_names_have_spaces_are_told_apart(images, tmp_path):
    class Refusing(Matcher):
        def match(self, features1, features2):
            if len(features1.frames) == 0:
                raise InputError("no features")
            return super().match(features1, features2)

    cv2.imwrite(str(images["a.png"]), np.zeros((9, 9), np.uint8))
    images = {
        "a": images["a.png"],
        "a b": images["b.png"],
        "c": images["b.png"],
        "b c": images["b.png"],
    }
    with MatchStore(tmp_path / "finished.db", {}) as store:
        pairs = [("a b", "c"), ("a", "b c")]
        outcome = match_collection(images, pairs, Counting(), Refusing(), store)
        report = collection_report(store, outcome)
    assert outcome.pairs == [("a b", "c")]
    assert outcome.failed_pairs == {("a", "b c"): "no features"} and not outcome.failures
    assert report["failed_pairs"] == [{"image1": "a", "image2": "b c", "reason": "no features"}]


def test_failures_come_in_the_order_of_the_images(images, tmp_path):
    images["b.png"].write_bytes(b"no picture")
    images["more/c.png"].unlink()  # found out before b.png is read
    assert list(run(images, tmp_path / "a.db")[0].failures) == ["b.png", "more/c.png"]


def test_another_matcher_needs_no_new_features_and_keeps_the_old_matches(images, tmp_path):
    path = tmp_path / "finished.db"
    mutual, ratio = Matcher(), Matcher("mutual_ratio", ratio=0.7)
    extractor = Counting()
    with MatchStore(path, extractor.settings(), mutual.settings()) as store:
        pairs = exhaustive_pairs(list(images))
        match_collection(images, pairs, extractor, mutual, store)
        many = store.read_pair(*pairs[0])
    with MatchStore(path, extractor.settings(), ratio.settings()) as store:
        match_collection(images, pairs, extractor, ratio, store)
        few = store.read_pair(*pairs[0])
    assert extractor.count == len(images)
    assert len(few.indices) < len(many.indices)
    assert Matcher(ratio=0.9).settings() == mutual.settings()
    with MatchStore(path, extractor.settings(), mutual.settings()) as store:
        np.testing.assert_array_equal(store.read_pair(*pairs[0]).indices, many.indices)


def test_other_settings_require_another_store(images, tmp_path):
    run(images, tmp_path / "finished.db")
    with pytest.raises(InputError, match="model = sift, not orb"):
        run(images, tmp_path / "finished.db", settings={"model": "orb"})


def test_a_refused_store_is_closed(images, tmp_path, monkeypatch):
    run(images, tmp_path / "finished.db")
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


def test_damage_within_a_store_is_named(images, tmp_path):
    run(images, tmp_path / "finished.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "finished.db")) as database, database:
        database.execute("UPDATE images SET features = x'00'")
    with (
        MatchStore(tmp_path / "finished.db", {"model": "sift"}) as store,
        pytest.raises(InputError, match=r"finished\.db is damaged .*: delete it"),
    ):
        store.read_features(sorted(images)[0])


def test_unit_rows_keep_the_order_of_distances():
    bits = np.random.default_rng(0).integers(0, 256, (20, 4), np.uint8)
    rows = unit_rows(bits, cv2.NORM_HAMMING)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-6)
    hamming = distance_matrix(bits, bits, cv2.NORM_HAMMING)
    np.testing.assert_allclose(rows @ rows.T, 1 - 2 * hamming / 32.0, atol=1e-6)
    assert np.isfinite(unit_rows(np.zeros((2, 8), np.float32), cv2.NORM_L2)).all()
