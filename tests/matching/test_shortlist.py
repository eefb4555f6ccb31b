import json
import re
import sys

import cv2
import numpy as np
import pytest
from sklearn.decomposition import PCA

from doap_tf.errors import InputError
from doap_tf.matching import (
    DescriptorExtractor,
    Features,
    NearestNeighbours,
    Pipeline,
    Verifier,
    shortlist,
)
from doap_tf.matching.image_features import unit_rows
from doap_tf.matching.shortlist import (
    learn_codebook,
    make_signatures,
    nearest_pairs,
    retrieval_pairs,
)
from tests.features.pictures import photograph
from tests.matching.test_match_main import run


def features(rows, norm=cv2.NORM_L2):
    count = len(rows)
    return Features(np.zeros((count, 2, 3)), np.zeros(count, np.float32), rows, norm, (9, 9))


@pytest.fixture
def collection():
    """Four images, the first two and the last two alike, as floats and as bits."""
    random = np.random.default_rng(0)
    scenes = random.standard_normal((2, 60, 64)).astype(np.float32)
    rows = {
        name: scenes[number // 2] + 0.3 * random.standard_normal((60, 64))
        for number, name in enumerate("abcd")
    }
    return {
        cv2.NORM_L2: {name: features(r.astype(np.float32)) for name, r in rows.items()},
        cv2.NORM_HAMMING: {
            name: features(np.packbits(r > 0, axis=1), cv2.NORM_HAMMING) for name, r in rows.items()
        },
    }


@pytest.mark.parametrize("norm", [cv2.NORM_L2, cv2.NORM_HAMMING])
def test_images_of_one_scene_are_paired(collection, norm):
    read = collection[norm].__getitem__
    codebook = learn_codebook("abcd", read)
    for first, second in zip(codebook, learn_codebook("abcd", read), strict=True):
        np.testing.assert_array_equal(first, second)
    signatures = make_signatures("abcd", read, codebook)
    np.testing.assert_allclose(np.linalg.norm(signatures, axis=1), 1, rtol=1e-5)
    assert nearest_pairs("abcd", signatures, 1) == [("a", "b"), ("c", "d")]


def test_components_are_those_of_a_principal_component_analysis(collection):
    read = collection[cv2.NORM_L2].__getitem__
    rows = np.concatenate([unit_rows(read(name).descriptors, cv2.NORM_L2) for name in "abcd"])
    analysis = PCA(32).fit(rows.astype(np.float64))
    components = learn_codebook("abcd", read).components[:, :32]
    cosines = (components.T * analysis.components_).sum(axis=1)
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-4)
    assert (components.max(axis=0) >= -components.min(axis=0)).all()


@pytest.mark.parametrize(("count", "width", "expected"), [(90, 128, 32), (60, 8, 8), (20, 64, 20)])
def test_a_signature_has_at_most_32_components_a_word(count, width, expected):
    rows = np.random.default_rng(3).standard_normal((count, width)).astype(np.float32)
    images = {"a": features(rows)}
    codebook = learn_codebook("a", images.get)
    words = -(-count // 32)
    assert codebook.words.shape == (words, expected)
    assert make_signatures("a", images.get, codebook).shape == (1, words * expected)


@pytest.mark.parametrize("norm", [cv2.NORM_L2, cv2.NORM_HAMMING])
def test_a_signature_is_a_vlad_of_directions(collection, norm):
    read = collection[norm].__getitem__
    codebook = learn_codebook("abcd", read)
    components, words = (array.astype(np.float64) for array in codebook)
    expected = np.zeros_like(words)
    for row in unit_rows(read("b").descriptors, norm).astype(np.float64):
        projected = np.array([row @ component for component in components.T])
        word = np.argmin(((projected - words) ** 2).sum(axis=1))
        difference = projected - words[word]
        if difference.any():
            expected[word] += difference / np.linalg.norm(difference)
    for total in expected:
        total /= max(np.linalg.norm(total), 1e-12)
    expected /= np.linalg.norm(expected)
    found = make_signatures("b", read, codebook)[0]
    np.testing.assert_allclose(found, expected.ravel(), atol=2e-4)


def test_pairs_are_the_union_of_the_nearest_each_once():
    random = np.random.default_rng(1)
    names = [f"{number:02d}" for number in range(23)]
    signatures = random.standard_normal((23, 5)).astype(np.float32)
    signatures[7] = signatures[4]  # the same image twice
    distances = ((signatures[:, None].astype(float) - signatures) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    order = np.argsort(distances, axis=1, kind="stable")
    expected = {
        tuple(sorted((names[place], names[other])))
        for place in range(23)
        for other in order[place, :3]
    }
    assert nearest_pairs(names, signatures, 3) == sorted(expected)
    assert len(nearest_pairs(names, signatures, 99)) == 23 * 22 / 2
    with pytest.raises(InputError, match="at least 1, not 0"):
        nearest_pairs(names, signatures, 0)


def test_an_index_finds_most_of_many_images(monkeypatch):
    pytest.importorskip("faiss")
    random = np.random.default_rng(2)
    scenes = random.standard_normal((100, 1, 32)) + 0.3 * random.standard_normal((100, 4, 32))
    signatures = scenes.reshape(-1, 32).astype(np.float32)
    signatures[7] = 0  # an image without features
    names = [f"{number:03d}" for number in range(400)]
    exact = nearest_pairs(names, signatures, 3)
    monkeypatch.setattr(shortlist, "_SEARCHED_EXACTLY", 398)
    found = nearest_pairs(names, signatures, 3)
    assert len(set(found) & set(exact)) > 0.95 * len(exact)
    assert not any("007" in pair for pair in found)


def test_many_images_without_the_index_are_one_line(monkeypatch):
    monkeypatch.setattr(shortlist, "_SEARCHED_EXACTLY", 2)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"of 3 images needs Faiss: .*\[faiss\]"):
        nearest_pairs("abc", np.eye(3, dtype=np.float32), 1)


def test_an_image_without_features_does_not_stop_the_others(collection):
    images = {**collection[cv2.NORM_L2], "e": features(np.zeros((0, 64), np.float32))}
    signatures = make_signatures("abcde", images.get, learn_codebook("abcde", images.get))
    assert nearest_pairs("abcde", signatures, 1) == [("a", "b"), ("c", "d")]
    with pytest.raises(InputError, match="none of 1 images has a feature"):
        learn_codebook("e", images.get)


def test_a_second_run_has_the_same_pairs_and_a_changed_collection_others(tmp_path, monkeypatch):
    picture = photograph("astronaut")
    parts = {"a": (0, 0), "b": (0, 40), "c": (200, 200), "d": (200, 240)}
    images = {}
    for name, (top, left) in parts.items():
        images[name] = tmp_path / f"{name}.png"
        cv2.imwrite(str(images[name]), picture[top : top + 200, left : left + 200])
    record = tmp_path / "shortlist.json"
    extractor = DescriptorExtractor("sift", "dog", max_keypoints=100)

    def matched(**choice):
        with Pipeline(tmp_path, extractor, NearestNeighbours(), Verifier()) as pipeline:
            return pipeline.run(
                images, lambda names: retrieval_pairs(names, pipeline.store, 1, record, **choice)
            )

    def refuse(*arguments):
        raise AssertionError

    assert matched().pairs == [("a", "b"), ("c", "d")]
    assert len(json.loads(record.read_text())["pairs"]) == 2
    assert matched(make=refuse).pairs == [("a", "b"), ("c", "d")]
    with monkeypatch.context() as other, pytest.raises(AssertionError):
        other.setattr(shortlist, "_COMPONENTS", 16)
        matched(make=refuse)
    cv2.imwrite(str(images["d"]), picture[10:210, 20:220])
    with pytest.raises(AssertionError):
        matched(make=refuse)
    assert ("a", "d") in matched().pairs or ("b", "d") in matched().pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    picture = photograph("astronaut")
    for name, (top, left) in {"a": (0, 0), "b": (0, 40), "c": (200, 200), "d": (200, 240)}.items():
        cv2.imwrite(str(folder / f"{name}.png"), picture[top : top + 200, left : left + 200])
    return folder


def test_the_command_matches_the_shortlist(folder):
    arguments = ["--images=*.png", "--model=sift", "--detector=dog", "--max_keypoints=100"]
    finished = run(folder, *arguments, "--pairs=retrieval", "--neighbours=1", "--output=out")
    assert "4 of 4 images, 2 of 2 pairs" in finished.stdout, finished.stderr
    assert (folder / "out/pairs.txt").read_text() == "a.png b.png\nc.png d.png\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--images=a.png", "--pairs=retrieval"], "one image"),
        (["--images=*.png", "--pairs=retrieval", "--neighbours=0"], "neighbours.*not 0"),
        (["--images=*.png", "--neighbours=3"], "--neighbours.*--pairs=retrieval"),
        (["--images=*.png", "--shards=here"], "--shards.*--beam_options"),
    ],
)
def test_bad_input_is_one_line_before_any_work(folder, arguments, message):
    finished = run(folder, *arguments, "--model=sift", "--output=none")
    assert finished.returncode == 2 and not (folder / "none").exists()
    (line,) = finished.stderr.splitlines()
    assert line.startswith("error: ") and re.search(message, line)


def test_without_beam_the_command_says_what_to_install(folder):
    program = "import sys; sys.modules['apache_beam'] = None\n"
    program += "from doap_tf.commands import match; match.run()"
    arguments = ["--images=*.png", "--beam_options=--runner=DirectRunner", "--output=none"]
    finished = run(folder, *arguments, "--model=sift", program=["-c", program])
    assert finished.returncode == 2 and not (folder / "none").exists()
    assert re.fullmatch(r"error: Apache Beam is not installed: .*\[beam\].*\n", finished.stderr)
