"""Models by name, their identity, and the cache that is keyed by it."""

import dataclasses
import json

import numpy as np
import pytest

from doap_tf.errors import InputError
from doap_tf.evaluation import Model, load_model, load_models
from doap_tf.evaluation.descriptor_cache import DescriptorCache, array_hash
from doap_tf.evaluation.model import training_record
from tests.evaluation.descriptors import Reader

PATCHES = np.random.default_rng(0).integers(0, 256, (10, 40, 40), np.uint8)


@dataclasses.dataclass
class Shifted(Reader):
    """The same weights put to another use."""

    shift: float = 1.0

    def describe(self, patches, batch_size=1024):
        return super().describe(patches) + self.shift


def test_baselines_have_no_weights():
    model = load_model("rootsift")
    assert (model.name, model.weights_sha256) == ("rootsift", None)
    assert model.training == {"data": "none"}


@pytest.mark.parametrize(
    ("path", "name"), [("runs/liberty/", "liberty"), ("a.b/best.keras", "best"), ("v1.2", "v1.2")]
)
def test_networks_are_named_after_their_paths(path, name, monkeypatch):
    monkeypatch.setattr("doap_tf.evaluation.model.load_descriptor", lambda path: Reader())
    assert load_model(path).name == name


def test_models_of_one_name_are_told_apart(monkeypatch):
    monkeypatch.setattr("doap_tf.evaluation.model.load_descriptor", lambda path: Reader())
    names = [model.name for model in load_models(["one/model.keras", "two/model.keras", "sift"])]
    assert names == ["one_model.keras", "two_model.keras", "sift"]
    names = [model.name for model in load_models(["a/x/model.keras", "b/x/model.keras"])]
    assert names == ["a_x_model.keras", "b_x_model.keras"]


def test_the_same_model_twice_is_an_error():
    with pytest.raises(InputError, match="named twice"):
        load_models(["sift", "orb", "sift"])


def test_training_record(tmp_path):
    record = {"config": {"batch_size": 512}, "data": {"train": {"source": "liberty"}}}
    (tmp_path / "train.json").write_text(json.dumps(record))
    assert training_record(tmp_path) == {"batch_size": 512, "data": "liberty"}
    (tmp_path / "train.json").write_text("{}")
    assert training_record(tmp_path) == {}
    assert training_record(tmp_path / "nowhere") == {}


def test_identity_is_of_weights_and_answers():
    identity = Model("a", Reader()).identity
    assert Model("b", Reader()).identity == identity
    assert Model("a", Reader(weights_sha256="1" * 64)).identity != identity
    assert Model("a", Shifted()).identity != identity


def test_cache_is_keyed_by_content(tmp_path):
    reader = Reader()
    cache = DescriptorCache(tmp_path, Model("reader", reader))
    first = cache.describe_array(PATCHES, "patches")
    described = reader.described
    assert (cache.describe_array(PATCHES.copy(), "again") == first).all()
    assert reader.described == described
    other = cache.describe_array(PATCHES[::-1], "others")
    assert (other == first[::-1]).all()
    other_model = DescriptorCache(tmp_path, Model("reader", Shifted()))
    assert (other_model.describe_array(PATCHES, "patches") == first + 1).all()


@pytest.mark.parametrize("damage", [b"", b"no array", b"\x93NUMPY\x01\x00"])
def test_damaged_entries_are_made_anew(tmp_path, damage):
    cache = DescriptorCache(tmp_path, Model("reader", Reader()))
    first = np.array(cache.describe_array(PATCHES, "patches"))
    (entry,) = tmp_path.rglob("*.npy")
    entry.write_bytes(damage)
    assert (cache.describe_array(PATCHES, "patches") == first).all()


def test_entries_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    cache = DescriptorCache(tmp_path, Model("reader", Reader()))

    def full_disk(file, array):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(InputError, match="No space left"):
        cache.describe_array(PATCHES, "patches")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_no_patches_give_no_descriptors(tmp_path):
    cache = DescriptorCache(tmp_path, Model("reader", Reader()))
    assert cache.describe_array(PATCHES[:0], "nothing").shape == (0, 32)


def test_array_hash_is_of_shape_type_and_values():
    array = np.arange(6, dtype=np.uint8)
    changed = [array.reshape(2, 3), array.astype(np.int8), array + 1, array[:5]]
    hashes = {array_hash(one) for one in [array, *changed]}
    assert len(hashes) == 5 and array_hash(array[::1].copy()) in hashes
