import numpy as np
import pytest

import doap_tf
from doap_tf import metrics
from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors.litert_backend import LiteRTBackend
from doap_tf.errors import InputError
from doap_tf.features import LearnedDetector
from doap_tf.networks import DescriptorNetwork, KeypointNetwork
from doap_tf.zoo import load_descriptor, load_keras
from doap_tf.zoo.tflite_files import tflite_file
from tests import layouts


def test_a_keypoint_network_is_no_descriptor():
    detector = ENTRIES["learned"].file(".tflite")
    for path in (detector, "learned"):
        assert isinstance(doap_tf.from_pretrained(path), LearnedDetector)
        with pytest.raises(InputError, match="finds keypoints and describes none"):
            load_descriptor(path)
    with pytest.raises(InputError, match=r"learned\.tflite holds no network of patches"):
        LiteRTBackend(detector)
    path = tflite_file("doap-tiny-256b")
    with pytest.raises(InputError, match=r"^\S+ holds no keypoint network"):
        LearnedDetector(path)


def test_keras_networks_of_any_kind_by_name_and_path(tmp_path):
    assert load_keras("learned").count_params() < 250_000
    with pytest.raises(InputError, match="holds a doap_tf>KeypointNetwork, not a DescriptorNetwor"):
        load_keras("learned", DescriptorNetwork)
    network = KeypointNetwork(stride=2, filters=(4, 6))
    network.build((None, None, None, 1))
    network.save(tmp_path / "model.keras")
    for path in (tmp_path, tmp_path / "model.keras", str(tmp_path)):
        assert load_keras(path).get_config() == network.get_config()
    (tmp_path / "empty").mkdir()
    for path, message in {
        "absent": "is neither a file or folder nor one of doap-128",
        tmp_path / "empty": r"holds neither model\.keras nor a SavedModel",
        tflite_file("doap-tiny-256b"): r"is an export.*: give the \.keras file",
    }.items():
        with pytest.raises(InputError, match=message):
            load_keras(path)


@pytest.mark.parametrize("name", doap_tf.list_pretrained())
def test_shipped_networks(name):
    """Each is small, and beats RootSIFT on views of textures."""
    assert ENTRIES[name].weights.stat().st_size < 6_000_000
    descriptor = doap_tf.from_pretrained(name)
    generator = np.random.default_rng(0)
    views = np.stack([layouts.views(generator, 2, 65, jitter=2.5) for _ in range(150)])

    def matching(described):
        return metrics.matching_average_precision(
            *(described.describe(views[:, view]) for view in (0, 1)), described.norm
        )

    assert matching(descriptor) > matching(load_descriptor("rootsift"))
