import numpy as np
import pytest
import skimage.data
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from doap_tf import tflite_metadata
from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError
from doap_tf.export import convert_keypoints_to_tflite
from doap_tf.networks import KeypointNetwork
from doap_tf.zoo import load_keras


@pytest.fixture(scope="module")
def network() -> KeypointNetwork:
    """Untrained, with statistics of batch normalisation that an error in folding would show."""
    tf.keras.utils.set_random_seed(0)
    network = KeypointNetwork(4, (16, 24))
    network.build((None, None, None, 1))
    rng = np.random.default_rng(0)
    for block in network.blocks:
        mean, variance = block.normalization.get_weights()
        block.normalization.set_weights(
            [rng.normal(0, 1, mean.shape), rng.uniform(0.5, 2, variance.shape)]
        )
    return network


@pytest.fixture(scope="module")
def model(network) -> bytes:
    return convert_keypoints_to_tflite(network)


def _operators(model: bytes) -> list[str]:
    tree = schema.ModelT.InitFromPackedBuf(model, 0)
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    (graph,) = tree.subgraphs
    return [names[tree.operatorCodes[step.opcodeIndex].builtinCode] for step in graph.operators]


def _image(height: int, width: int) -> np.ndarray:
    return skimage.data.camera()[:height, :width].astype(np.float32)[np.newaxis, ..., np.newaxis]


def _run(interpreter: Interpreter, image: np.ndarray) -> np.ndarray:
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def test_scores_agree_with_the_network_at_every_size(network, model):
    interpreter = Interpreter(model_content=model)
    for size in ((64, 96), (4, 4), (120, 36), (64, 96)):
        image = _image(*size)
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], image.shape)
        expected = network(image).numpy()
        assert expected.std() > 0.1
        np.testing.assert_allclose(_run(interpreter, image), expected, atol=1e-4)


def test_a_fixed_size_is_the_only_one(network):
    interpreter = Interpreter(model_content=convert_keypoints_to_tflite(network, (32, 48)))
    (details,) = interpreter.get_input_details()
    assert details["shape_signature"].tolist() == [1, 32, 48, 1]
    image = _image(32, 48)
    np.testing.assert_allclose(_run(interpreter, image), network(image), atol=1e-4)


def test_names_and_metadata_are_inside_the_file(network, model):
    interpreter = Interpreter(model_content=model)
    (signature,) = interpreter.get_signature_list().values()
    assert signature == {"inputs": ["images"], "outputs": ["scores"]}
    metadata = tflite_metadata.read(model)
    digest = metadata.pop("weights_sha256")
    assert metadata == {
        "network": "KeypointNetwork",
        "stride": 4,
        "receptive_field": 20,
        "radius": 1.6,
        "image_size": None,
    }
    fixed = tflite_metadata.read(convert_keypoints_to_tflite(network, (8, 12)))
    assert fixed["image_size"] == [8, 12]
    assert fixed["weights_sha256"] == digest


def test_batch_normalisation_is_folded_and_all_operators_are_builtin(model):
    assert _operators(model) == [
        *("MUL", "SUB", "SPACE_TO_DEPTH"),
        *("CONV_2D", "CONV_2D", "CONV_2D"),
        "DEPTH_TO_SPACE",
    ]


def test_a_mixed_precision_network_scores_in_float32(network):
    mixed = KeypointNetwork.from_config({**network.get_config(), "dtype": "mixed_bfloat16"})
    mixed.build((None, None, None, 1))
    mixed.set_weights(network.get_weights())
    interpreter = Interpreter(model_content=convert_keypoints_to_tflite(mixed, (16, 16)))
    np.testing.assert_allclose(
        _run(interpreter, _image(16, 16)), network(_image(16, 16)), atol=1e-4
    )


@pytest.mark.parametrize("size", [(30, 48), (32, 0), (32, 46)])
def test_sizes_between_blocks_are_refused_in_one_line(network, size):
    with pytest.raises(InputError, match=f"4, not {size[0]}x{size[1]}"):
        convert_keypoints_to_tflite(network, size)


def test_both_files_that_ship_hold_one_network():
    metadata = tflite_metadata.read(ENTRIES["learned"].file(".tflite").read_bytes())
    assert metadata["weights_sha256"] == weights_sha256(load_keras("learned"))
