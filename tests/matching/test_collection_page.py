import base64
import re

import cv2
import numpy as np
import pytest

from doap_tf.features import similarity_frames
from doap_tf.matching import Features, MatchStore, collection_page, write_collection_page
from doap_tf.matching.match_store import StoredMatches
from doap_tf.matching.pipeline import Outcome, collection_report

SETTINGS = {
    "descriptor": "sift",
    "detector": "dog",
    "method": "mutual",
    "geometry": "homography",
    "estimator": "magsac",
    "threshold": 3.0,
}
COUNT = 20  # matches of each pair


@pytest.fixture
def collection(tmp_path):
    """Images 00 <&>.png to 19 <&>.png: the first has k inliers with image k, reliable for k > 4."""
    names = [f"{number:02d} <&>.png" for number in range(20)]
    images = {name: tmp_path / name for name in names}
    for path in images.values():
        cv2.imwrite(str(path), np.full((60, 80), 90, np.uint8))
    points = np.random.default_rng(0).uniform(5, 55, (2, COUNT))
    rows = np.zeros((COUNT, 8), np.float32)
    frames = similarity_frames(*points, np.full(COUNT, 3.0))
    features = Features(frames, np.zeros(COUNT, np.float32), rows, cv2.NORM_L2, (80, 60))
    indices = np.stack([np.arange(COUNT)] * 2, axis=1)
    with MatchStore(tmp_path / "finished.db", {}) as store:
        for name in names:
            store.write_features(name, "0", features)
        for number, name in enumerate(names[1:], start=1):
            model = np.eye(3) if number > 2 else None
            inliers = np.arange(COUNT) < (number if number > 2 else 0)
            verdict = "homography", 0.9 if number > 4 else 0.1
            matches = StoredMatches(indices, np.ones(COUNT), inliers, model, *verdict)
            store.write_pair(names[0], name, matches)
        pairs = [(names[0], name) for name in names[1:]]
        failed = {("x y", "z.png"): "no <features>"}
        outcome = Outcome(names, pairs, {"x.png": "a < b"}, failed, 0)
        yield store, images, collection_report(store, outcome, SETTINGS)


def shown(page):
    """Numbers of the second images below each heading, in order."""
    sections = re.split(r"<h2>(.*?)</h2>", page)[1:]
    captions = [re.findall(r"<figcaption>.*? – (\d+)", text) for text in sections[1::2]]
    return {
        heading: list(map(int, found))
        for heading, found in zip(sections[::2], captions, strict=True)
        if found
    }


def test_the_best_the_worst_and_the_failed_pairs_are_shown(collection, tmp_path):
    write_collection_page(tmp_path / "index.html", *collection, ["report.json"])
    page = (tmp_path / "index.html").read_text("utf-8")
    found = shown(page)
    assert found["Most inliers"] == [19, 18, 17, 16, 15, 14]
    assert found["Fewest inliers"] == [10, 9, 8, 7, 6, 5]
    assert sorted(found["No reliable match"]) == [1, 2, 3, 4]
    assert 'href="report.json"' in page and "a &lt; b" in page
    assert "x y – z.png" in page and "no &lt;features&gt;" in page
    assert "<&>" not in page and "00 &lt;&amp;&gt;.png" in page
    assert "<td>20</td><td>19</td><td>homography</td><td>yes</td>" in page
    assert "<td>20</td><td>4</td><td>homography</td><td>no</td>" in page
    assert not re.search(r"<script|https?:", page) and "color-scheme: light dark" in page
    pictures = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    assert len(pictures) == 16
    for data in pictures:
        picture = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
        assert picture.shape[1] < 1000


def test_large_collections_take_bounded_work(collection, tmp_path, monkeypatch):
    monkeypatch.setattr(collection_page, "_SHOWN", 1)
    monkeypatch.setattr(collection_page, "_ROWS", 5)
    read = []
    monkeypatch.setattr(
        collection_page,
        "read_image",
        lambda path, upright: read.append(path) or np.zeros((60, 80), np.uint8),
    )
    write_collection_page(tmp_path / "index.html", *collection)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert len(read) == 6 and {len(pairs) for pairs in shown(page).values()} == {1}
    assert page.count("<tr>") == 3 + 5 + 5 + 2
    assert "first 5 of 19" in page and "first 5 of 20" in page


def test_without_a_geometry_pairs_are_ranked_by_matches(collection, tmp_path):
    store, images, report = collection
    report["settings"] = {**SETTINGS, "geometry": None}
    for pair in report["pairs"]:
        del pair["inliers"], pair["reliable"]
    write_collection_page(tmp_path / "index.html", store, images, report)
    page = (tmp_path / "index.html").read_text("utf-8")
    assert list(shown(page)) == ["Most matches", "Fewest matches"]
    assert "<th>inliers" not in page
