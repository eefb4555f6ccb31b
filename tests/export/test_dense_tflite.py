"""The converted dense network agrees with Keras at every size."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from doap_tf import tflite_metadata
from doap_tf.errors import InputError
from doap_tf.export import convert_dense_to_tflite
from doap_tf.networks import DenseNetwork
from tests.dense import small_model, small_network


@pytest.fixture(params=["real", "binary"])
def converted(request) -> tuple[DenseNetwork, bytes]:
    return small_network(request.param), small_model(request.param)


def test_maps_and_rows_agree_with_the_network_at_every_size(converted):
    network, model = converted
    interpreter = Interpreter(model_content=model)
    read, describe = (interpreter.get_signature_runner(name) for name in ("read", "describe"))
    rng = np.random.default_rng(0)
    for size in ((64, 96), (32, 32), (128, 64), (64, 96)):
        images = rng.uniform(0, 255, [1, *size, 1]).astype(np.float32)
        statistics = np.array([[images.mean(), images.std()]], np.float32)
        outputs = read(images=images, statistics=statistics)
        expected = network(images)
        np.testing.assert_allclose(outputs["scores"], expected.scores, atol=1e-4)
        for stride, level in zip(network.feature_strides, expected.features, strict=True):
            np.testing.assert_allclose(outputs[f"features{stride}"], level, atol=1e-4)
    sampled = rng.normal(size=[7, network.feature_channels]).astype(np.float32)
    rows, wanted = (
        describe(sampled=sampled)["descriptors"],
        network.project(sampled[np.newaxis])[0].numpy(),
    )
    if network.head == "binary":
        np.testing.assert_array_equal(rows, np.packbits(wanted > 0, axis=1))
    else:
        np.testing.assert_allclose(rows, wanted, atol=1e-5)


def test_operators_are_builtin_and_none_resizes(converted):
    network, model = converted
    tree = schema.ModelT.InitFromPackedBuf(model, 0)
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    operators = {names[code.builtinCode] for code in tree.operatorCodes}
    assert not operators & {"CUSTOM", "RESIZE_BILINEAR", "SHAPE"}
    metadata = tflite_metadata.read(model)
    assert metadata["feature_strides"] == list(network.feature_strides)
    assert metadata["margin"] == network.margin


def test_sizes_that_are_no_multiples_of_32_are_refused():
    with pytest.raises(InputError, match="image_sizes must be multiples of 32, not 30x64"):
        convert_dense_to_tflite(small_network(), [(64, 64), (30, 64)])


def test_a_file_of_several_sizes_shares_the_weights():
    network, model = small_network(), small_model()
    fixed = convert_dense_to_tflite(network, [(32, 64), (64, 32)], rows=5)
    runner = Interpreter(model_content=model).get_signature_runner("read")
    interpreter = Interpreter(model_content=fixed)
    statistics = np.array([[128, 50]], np.float32)
    for size in ((32, 64), (64, 32)):
        images = np.random.default_rng(0).uniform(0, 255, [1, *size, 1]).astype(np.float32)
        wanted = runner(images=images, statistics=statistics)
        found = interpreter.get_signature_runner("read_{}x{}".format(*size))(
            images=images, statistics=statistics
        )
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], atol=1e-5)
    describe = interpreter.get_signature_runner("describe")
    assert describe.get_input_details()["sampled"]["shape"][0] == 5
    buffers = schema.ModelT.InitFromPackedBuf(fixed, 0).buffers
    stored = sum(len(buffer.data) for buffer in buffers if buffer.data is not None)
    assert stored < 6 * network.count_params()
