"""Networks as compact files: the configuration and float16 weights, no code."""

import json
import os
import pathlib

import numpy as np

from doap_tf import files
from doap_tf.descriptors.keras_file import build_network
from doap_tf.errors import InputError, one_line
from doap_tf.networks import DescriptorNetwork

_CONFIG = "config"


def write_weights(network: DescriptorNetwork, path: str | os.PathLike) -> None:
    """Writes a network as an `.npz` file.

    Statistics of batch normalisation stay in float32, because variances may be tiny.
    """
    members = {_CONFIG: np.frombuffer(json.dumps(network.get_config()).encode(), np.uint8)}
    for number, weight in enumerate(network.weights):
        statistic = "/moving_" in weight.path
        members[f"weight_{number:04d}"] = weight.numpy().astype(
            np.float32 if statistic else np.float16
        )
    with files.write_atomically(path) as temporary:
        np.savez_compressed(temporary, **members)  # type: ignore[arg-type]


def read_weights(path: str | os.PathLike) -> DescriptorNetwork:
    """Reads what `write_weights` wrote, in float32 whatever the current policy is."""
    path = pathlib.Path(path)
    try:
        with np.load(path, allow_pickle=False) as members:
            config = json.loads(members[_CONFIG].tobytes())
            weights = [members[name].astype(np.float32) for name in sorted(members.files)[1:]]
        network = build_network(config, sum(weight.nbytes for weight in weights))
        network.set_weights(weights)
    except Exception as error:  # NumPy, zipfile, JSON and Keras raise nearly anything
        raise InputError(
            f"{path} does not hold the weights of a network: {one_line(error)}"
        ) from error
    return network
