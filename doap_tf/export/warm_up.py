"""Warm-up requests: TensorFlow Serving replays them while loading, so that no user waits for it."""

import pathlib

import numpy as np
import tensorflow as tf

_ROWS = 8


def write_warm_up_requests(
    path: pathlib.Path,
    name: str,
    signatures: dict[str, tf.types.experimental.ConcreteFunction],
) -> bool:
    """Writes one request for each signature, in the server's own format.

    Args:
        path: The file, `assets.extra/tf_serving_warmup_requests` of a SavedModel.
        name: Name of the model.
        signatures: Traced signatures by name.

    Returns:
        Whether it was written: it takes the messages of `tensorflow-serving-api`, which machines
        that only train do not have.
    """
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        return False
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature, function in signatures.items():
            request = predict_pb2.PredictRequest()
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for spec in function.structured_input_signature[0]:
                request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(_example(spec)))
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
    return True


def _example(spec: tf.TensorSpec) -> np.ndarray:
    random = np.random.default_rng(0)
    if spec.name == "frames":
        return np.tile(np.array([4, 0, 32, 0, 4, 32], np.float32), [1, _ROWS, 1])
    if spec.name == "images":
        noise = random.integers(0, 256, [64, 64, 1], np.uint8)
        return np.array([tf.io.encode_jpeg(noise).numpy()], object)
    return random.integers(0, 256, [_ROWS, 64, 64, 1]).astype(spec.dtype.as_numpy_dtype)
