"""Writing a network as a SavedModel in the layout of TensorFlow Serving."""

import inspect
import json
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from doap_tf import files
from doap_tf.catalogue import ENTRIES
from doap_tf.descriptors.saved_model_backend import METADATA_FILE, versions
from doap_tf.errors import InputError
from doap_tf.export.inference_network import inference_network
from doap_tf.export.model_card import model_card, network_metadata
from doap_tf.export.served_dense_network import ServedDenseNetwork
from doap_tf.export.served_network import ServedNetwork
from doap_tf.networks import DenseNetwork, DescriptorNetwork, KeypointNetwork
from doap_tf.networks.network_file import read_network

_CARD_FILE = "assets.extra/MODEL_CARD.md"
_WARM_UP_FILE = "assets.extra/tf_serving_warmup_requests"  # the name that the server looks for
_WARM_UP_ROWS = 8


def export_saved_model(
    network: DescriptorNetwork | DenseNetwork,
    directory: str | os.PathLike,
    version: int | None = None,
    training_record: dict[str, Any] | str | None = None,
) -> pathlib.Path:
    """Writes a SavedModel with its model card and warm-up requests.

    Existing versions are never changed, and a server that watches `directory` sees the new one
    complete or not at all.

    Args:
        network: A trained network, of patches or of whole images.
        directory: Folder of the model; its name is the model's name.
        version: Version number, above all existing ones; by default the next one.
        training_record: How the network was trained, for the model card; see `model_card`.

    Returns:
        The folder of the version, `directory/version`.
    """
    directory = pathlib.Path(directory)
    target = directory / str(_next_version(directory, version))
    network = inference_network(network)
    served = _served(network)
    signatures = served.signatures()
    metadata = network_metadata(network)
    # If the Keras model itself were tracked, the signatures would read copies of its variables,
    # which `tf.saved_model.load` restores but a server finds without values.
    saved = tf.Module()
    saved.weights = [variable.value for variable in network.variables]
    with files.write_directory_atomically(target) as folder:
        try:
            tf.saved_model.save(saved, str(folder), signatures)
        except tf.errors.OpError as error:
            reason = error.message.rpartition("; ")[2]  # behind the names of nodes and files
            raise InputError(f"{target} cannot be written: {reason}.") from error
        (folder / "assets.extra").mkdir()
        (folder / METADATA_FILE).write_text(
            json.dumps({**metadata, "name": directory.name, "training": training_record}, indent=1),
            "utf-8",
        )
        documentation = {name: inspect.getdoc(getattr(served, name)) or "" for name in signatures}
        (folder / _CARD_FILE).write_text(
            model_card(directory.name, metadata, signatures, documentation, training_record),
            "utf-8",
        )
        _write_warm_up_requests(folder / _WARM_UP_FILE, directory.name, signatures)
        if target.exists():
            raise InputError(f"{target} was written by someone else in the meantime; export again.")
    return target


def _served(network: DescriptorNetwork | DenseNetwork) -> ServedNetwork | ServedDenseNetwork:
    if isinstance(network, DenseNetwork):
        return ServedDenseNetwork(network)
    return ServedNetwork(network, read_network(ENTRIES["learned"].weights, KeypointNetwork))


def _next_version(directory: str | os.PathLike, version: int | None = None) -> int:
    """Returns `version`, which must be above all in the model's folder; by default the next one."""
    newest = max(versions(directory), default=0)
    if version is None:
        return newest + 1
    if version <= newest:
        raise InputError(f"version must be above {newest}, the newest in {directory}.")
    return version


def _write_warm_up_requests(
    path: pathlib.Path, name: str, signatures: dict[str, tf.types.experimental.ConcreteFunction]
) -> None:
    """Writes one request per signature, which the server replays while it loads the model."""
    try:
        from tensorflow_serving.apis import predict_pb2, prediction_log_pb2
    except ImportError:
        logging.warning("no warm-up requests: they need `pip install tensorflow-serving-api`.")
        return
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


def _example(spec: tf.TensorSpec) -> np.ndarray:
    random = np.random.default_rng(0)
    if spec.name == "frames":
        return np.tile(np.array([4, 0, 32, 0, 4, 32], np.float32), [1, _WARM_UP_ROWS, 1])
    if spec.name == "images":
        noise = random.integers(0, 256, [1, 64, 64, 1], np.uint8)
        is_file = spec.dtype == tf.string
        return np.array([tf.io.encode_jpeg(noise[0]).numpy()], object) if is_file else noise
    if spec.name == "max_keypoints":
        return np.array([_WARM_UP_ROWS], np.int32)
    return random.integers(0, 256, [_WARM_UP_ROWS, 64, 64, 1]).astype(spec.dtype.as_numpy_dtype)
