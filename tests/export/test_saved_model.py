import json
import pathlib
import pickle

import numpy as np
import pytest
import tensorflow as tf

import doap_tf
from doap_tf.descriptors.descriptor import Descriptor
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError
from doap_tf.export import export_saved_model, saved_model
from doap_tf.export.inference_network import inference_network
from doap_tf.networks import DescriptorNetwork
from tests.dense import small_network


def _files(directory: pathlib.Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_descriptor_loads_a_version_and_the_newest_of_a_model(networks, groups, exports):
    expected = Descriptor(networks["binary_st"])
    for path in (exports / "binary_st", exports / "binary_st" / "1"):
        loaded = doap_tf.from_pretrained(path)
        assert (loaded.norm, loaded.dimension, loaded.input_size) == (6, 128, 42)
        assert loaded.magnification == 4.0
        with pytest.raises(InputError, match="saved_model runs cannot be turned into a Keras"):
            loaded.to_keras()
        assert loaded.weights_sha256 == expected.weights_sha256
    patches = groups.patches[:40]
    np.testing.assert_array_equal(loaded.describe(patches), expected.describe(patches))
    assert loaded.describe(patches[:0]).shape == (0, 16)
    copied = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(copied.describe(patches[:2]), loaded.describe(patches[:2]))


def test_model_card_documents_training_weights_and_signatures(networks, exports):
    extra = exports / "binary_st" / "1" / "assets.extra"
    metadata = json.loads((extra / "doap_tf.json").read_text())
    assert metadata["training"] == {"seed": 7}
    assert metadata["weights_sha256"] == Descriptor(networks["binary_st"]).weights_sha256
    card = (extra / "MODEL_CARD.md").read_text()
    assert card.startswith("# binary_st\n")
    assert metadata["weights_sha256"] in card
    assert '"seed": 7' in card
    for line in (
        "### describe_image",
        "| in | images | string | [any] |",
        "| in | frames | float32 | [any, any, 6] |",
        "| out | descriptors | float32 | [any, any, 128] |",
        "| in | patches | uint8 | [any, any, any, 1] |",
        "| out | packed | uint8 | [any, 16] |",
        "### detect_and_describe",
        "| in | max_keypoints | int32 | [any] |",
        "| out | keypoints | float32 | [any, any, 4] |",
        "| out | counts | int32 | [any] |",
        "| out | packed | uint8 | [any, any, 16] |",
    ):
        assert line in card.splitlines()


def test_the_card_of_a_network_of_images_says_what_it_does(exports):
    extra = exports / "dense" / "1" / "assets.extra"
    card = (extra / "MODEL_CARD.md").read_text()
    assert "reads whole images" in card and "magnification" not in card
    for line in (
        "| network | DenseNetwork |",
        f"| weights sha256 | {weights_sha256(small_network('binary'))} |",
        "| in | images | uint8 | [any, any, any, any] |",
        "| in | images | string | [any] |",
        "| out | packed | uint8 | [any, any, 2] |",
    ):
        assert line in card.splitlines()
    with pytest.raises(InputError, match=r"dense/1 reads whole images, on a server: .*Extractor"):
        doap_tf.from_pretrained(exports / "dense")


@pytest.mark.parametrize("name", ["binary_st", "dense"])
def test_warm_up_requests_call_every_signature(exports, name):
    prediction_log = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    folder = exports / name / "1"
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    model = tf.saved_model.load(str(folder))
    called = []
    for record in tf.data.TFRecordDataset(str(path)):
        request = prediction_log.PredictionLog.FromString(record.numpy()).predict_log.request
        assert request.model_spec.name == name
        inputs = {key: tf.constant(tf.make_ndarray(t)) for key, t in request.inputs.items()}
        outputs = model.signatures[request.model_spec.signature_name](**inputs)
        assert all(np.any(values.numpy() != 0) for values in outputs.values())
        called.append(request.model_spec.signature_name)
    assert sorted(called) == sorted(model.signatures)


def test_real_networks_have_no_packed_signature(networks, exports, groups):
    model = tf.saved_model.load(str(exports / "real" / "1"))
    assert sorted(model.signatures) == [
        *("describe_image", "describe_uint8"),
        *("detect_and_describe", "serving_default"),
    ]
    assert list(model.signatures["describe_image"].structured_outputs) == ["descriptors"]
    loaded, expected = doap_tf.from_pretrained(exports / "real"), Descriptor(networks["real"])
    patches = groups.patches[:9]
    np.testing.assert_allclose(loaded.describe(patches), expected.describe(patches), atol=1e-6)


@pytest.fixture
def quick(monkeypatch):
    """Exports without tracing and saving: what is left is the handling of folders."""
    monkeypatch.setattr(saved_model.ServedNetwork, "signatures", lambda self: {})
    monkeypatch.setattr(
        tf.saved_model, "save", lambda _, folder, __: pathlib.Path(folder, "saved_model.pb").touch()
    )


def test_versions_count_up_and_never_go_back(quick, tmp_path):
    network = DescriptorNetwork(8, width=0.1)
    directory = tmp_path / "toy"
    assert export_saved_model(network, directory) == directory / "1"
    assert export_saved_model(network, directory, version=5) == directory / "5"
    before = _files(directory)
    for version in (5, 4, 0):
        with pytest.raises(InputError, match="above 5"):
            export_saved_model(network, directory, version=version)
    assert _files(directory) == before
    assert export_saved_model(network, directory) == directory / "6"


def test_a_failed_export_leaves_nothing_and_harms_nothing(quick, tmp_path, monkeypatch):
    network = DescriptorNetwork(8, width=0.1)
    export_saved_model(network, tmp_path / "toy")
    before = _files(tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_model, "model_card", full)
    with pytest.raises(OSError, match="No space"):
        export_saved_model(network, tmp_path / "toy")
    assert _files(tmp_path) == before
    assert [entry.name for entry in (tmp_path / "toy").iterdir()] == ["1"]


def test_mixed_precision_networks_are_exported_in_float32():
    mixed = DescriptorNetwork(16, width=0.2, spatial_transformer=True, dtype="mixed_bfloat16")
    exact = inference_network(mixed)
    assert exact.compute_dtype == exact.trunk.compute_dtype == "float32"
    assert exact.get_config()["spatial_transformer"]
    assert Descriptor(exact).weights_sha256 == Descriptor(mixed).weights_sha256
    assert inference_network(exact) is exact


@pytest.mark.parametrize("contents", [None, "saved_model.pb", "1/saved_model.pb"])
def test_other_folders_are_refused_in_one_line(tmp_path, contents):
    if contents:
        (tmp_path / contents).parent.mkdir(exist_ok=True)
        (tmp_path / contents).touch()
    with pytest.raises(InputError, match=str(tmp_path)) as error:
        doap_tf.from_pretrained(tmp_path)
    assert "\n" not in str(error.value)
