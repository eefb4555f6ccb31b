"""Models of 8 bits, made of models in float32."""

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from doap_tf.tflite_quantization import quantize
from tests.dense import small_model
from tests.features.pictures import photograph


def test_maps_are_those_of_float32_up_to_rounding():
    image = photograph()[np.newaxis, :192, :256, np.newaxis].astype(np.float32)
    statistics = np.array([[image.mean(), image.std()]], np.float32)
    wanted, found = (
        Interpreter(model_content=model).get_signature_runner("read")(
            images=image, statistics=statistics
        )
        for model in (small_model(), quantize(small_model()))
    )
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name].dtype == np.float32 and found[name].shape == values.shape
        error = found[name] - values
        assert 0 < np.sqrt(np.mean(error**2)) < 0.1 * values.std(), name


def test_all_convolutions_compute_in_int8_but_those_of_image_and_scores():
    tree = schema.ModelT.InitFromPackedBuf(quantize(small_model()), 0)
    names = {code: name for name, code in vars(schema.BuiltinOperator).items()}
    types = []
    for graph in tree.subgraphs:
        for operator in graph.operators:
            tensors = [graph.tensors[index] for index in (*operator.inputs, *operator.outputs)]
            if names[tree.operatorCodes[operator.opcodeIndex].builtinCode] == "CONV_2D":
                types.append(([each.type for each in tensors], tensors[1].shape))
    float32, int8, int32 = (
        getattr(schema.TensorType, name) for name in ("FLOAT32", "INT8", "INT32")
    )
    in_float = [shape for each, shape in types if each == [float32] * 4]
    assert [(shape[0], shape[-1]) for shape in in_float] == [(8, 1), (4, 16)]
    assert all(each == [int8, int8, int32, int8] for each, _ in types if each[0] != float32)
    assert len(types) == 11
