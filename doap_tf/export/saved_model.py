"""Writing a network as a SavedModel, laid out as TensorFlow Serving wants it."""

import inspect
import json
import os
import pathlib
from typing import Any

import tensorflow as tf
from absl import logging

from doap_tf import files
from doap_tf.descriptors.saved_model_backend import METADATA_FILE, versions
from doap_tf.errors import InputError
from doap_tf.export.inference_network import inference_network
from doap_tf.export.metadata import network_metadata
from doap_tf.export.model_card import model_card
from doap_tf.export.served_network import ServedNetwork
from doap_tf.export.warm_up import write_warm_up_requests
from doap_tf.networks import DescriptorNetwork

_CARD_FILE = "assets.extra/MODEL_CARD.md"
_WARM_UP_FILE = "assets.extra/tf_serving_warmup_requests"  # the name that the server looks for


def export_saved_model(
    network: DescriptorNetwork,
    directory: str | os.PathLike,
    version: int | None = None,
    training_record: dict[str, Any] | None = None,
) -> pathlib.Path:
    """Writes a SavedModel with its model card and warm-up requests.

    Versions that exist are never touched, and a server that watches `directory` sees the new one
    whole or not at all.

    Args:
        network: A trained network.
        directory: The model's folder; its name is the model's name.
        version: Number of the version, above all existing ones; by default the next one.
        training_record: How the network was trained, for the model card.

    Returns:
        The folder of the version, `directory/version`.
    """
    directory = pathlib.Path(directory)
    target = directory / str(next_version(directory, version))
    network = inference_network(network)
    served = ServedNetwork(network)
    signatures = served.signatures()
    metadata = network_metadata(network)
    # Tracked by itself, a Keras model is saved with copies of the variables that the signatures
    # read; `tf.saved_model.load` makes up for it, a server finds them without values.
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
            json.dumps({**metadata, "name": directory.name, "training": training_record}, indent=1)
        )
        documentation = {name: inspect.getdoc(getattr(served, name)) or "" for name in signatures}
        (folder / _CARD_FILE).write_text(
            model_card(directory.name, metadata, signatures, documentation, training_record)
        )
        if not write_warm_up_requests(folder / _WARM_UP_FILE, directory.name, signatures):
            logging.warning(
                "%s gets no warm-up requests: they need `pip install doap_tf[serving]`.", target
            )
        if target.exists():
            raise InputError(f"{target} was written by someone else in the meantime; export again.")
    return target


def next_version(directory: str | os.PathLike, version: int | None = None) -> int:
    """Checks that `version` is newer than all in the model's folder; by default the next number."""
    newest = max(versions(directory), default=0)
    if version is None:
        return newest + 1
    if version < 1:
        raise InputError(f"a version must be a number above 0, not {version}.")
    if version <= newest:
        raise InputError(
            f"{directory} already holds version {newest}, so version {version} would not be newer: "
            f"choose {newest + 1} or above, or leave it out."
        )
    return version
