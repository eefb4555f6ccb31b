import functools
import itertools

import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.matching import exhaustive_pairs, read_pairs, sequential_pairs
from doap_tf.matching.pair_selection import cluster_pairs

NAMES = ["a.jpg", "b.jpg", "c/d.jpg", "e.jpg"]


def test_exhaustive_pairs_are_all_of_them_once():
    pairs = exhaustive_pairs(NAMES)
    assert len(pairs) == 6 and {frozenset(pair) for pair in pairs} == {
        frozenset((first, second)) for first in NAMES for second in NAMES if first != second
    }
    assert exhaustive_pairs(NAMES[:1]) == []


def test_sequential_pairs_reach_as_far_as_the_overlap():
    assert sequential_pairs(NAMES, 1) == [
        ("a.jpg", "b.jpg"),
        ("b.jpg", "c/d.jpg"),
        ("c/d.jpg", "e.jpg"),
    ]
    assert sequential_pairs(NAMES, 99) == exhaustive_pairs(NAMES)
    with pytest.raises(InputError, match="overlap"):
        sequential_pairs(NAMES, 0)


def test_a_file_of_pairs_counts_each_once(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("e.jpg a.jpg\n\n a.jpg  c/d.jpg \na.jpg e.jpg\n")
    assert read_pairs(path, NAMES) == [("e.jpg", "a.jpg"), ("a.jpg", "c/d.jpg")]


def test_a_byte_order_mark_is_no_name(tmp_path):
    (tmp_path / "pairs.txt").write_text("a.jpg b.jpg", "utf-8-sig")
    assert read_pairs(tmp_path / "pairs.txt", NAMES) == [("a.jpg", "b.jpg")]


def test_names_with_spaces_are_found_where_a_line_has_one_meaning(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("my  photo.jpg b.jpg\nb.jpg\ta b.jpg\n")
    names = ["my  photo.jpg", "a b.jpg", "b.jpg"]
    assert read_pairs(path, names) == [("my  photo.jpg", "b.jpg"), ("b.jpg", "a b.jpg")]
    path.write_text("a b c\n")
    with pytest.raises(InputError, match=r"line 1.*more than one way"):
        read_pairs(path, ["a", "a b", "b c", "c"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a.jpg b.jpg\na.jpg\n", "line 2"),
        (b"a.jpg a.jpg\n", "line 1"),
        (b"a.jpg b.jpg e.jpg\n", "line 1.*two images"),
        (b"a.jpg x.jpg\n", "line 1.*x.jpg.*a.jpg"),
        (b"\xff\xfe\x00", "pairs.txt"),
        (b"\n \n", "names no pair"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
    (tmp_path / "pairs.txt").write_bytes(text)
    with pytest.raises(InputError, match=message):
        read_pairs(tmp_path / "pairs.txt", NAMES)
    with pytest.raises(InputError, match=r"missing\.txt"):
        read_pairs(tmp_path / "missing.txt", NAMES)


def test_clustered_pairs_need_few_images_at_a_time():
    random = np.random.default_rng(0)
    places = random.permutation(60)  # along a street, in an order that the names do not tell
    pairs = [
        (str(first), str(second))
        for first, second in itertools.combinations(range(60), 2)
        if abs(places[first] - places[second]) < 5
    ]
    for given, images in ((pairs, 16), (list(itertools.combinations(map(str, range(60)), 2)), 16)):
        ordered = cluster_pairs(given, images)
        assert sorted(ordered) == sorted(given)
        assert _reads(ordered, images) < _reads(given, images) / 2


def _reads(pairs, images):
    read = functools.lru_cache(images)(str)
    for name in itertools.chain.from_iterable(pairs):
        read(name)
    return read.cache_info().misses
