"""Files of networks: `.keras`, and compact `.npz` files with weights in float16.

Reading them runs no code, and does not let the file choose what is built.
"""

import inspect
import itertools
import json
import os
import pathlib
import zipfile
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf import files
from doap_tf.errors import InputError, one_line

_CONFIG = "config"
_CLASS = "registered_name"


def write_weights(
    network: tf.keras.Model, path: str | os.PathLike, bits: int | None = None
) -> None:
    """Writes a network as an `.npz` file.

    Statistics of batch normalisation stay in float32, because variances may be tiny.

    Args:
        network: A network.
        path: File to write.
        bits: Kernels are rounded to so many, with a step of its own for each output: with 8 the
            file has half the size.
    """
    config = network.get_config() | {_CLASS: tf.keras.utils.get_registered_name(type(network))}
    members = {_CONFIG: np.frombuffer(json.dumps(config).encode(), np.uint8)}
    for number, weight in enumerate(network.weights):
        values = weight.numpy()
        if bits and values.ndim > 1:
            values = _rounded(values, bits)
        statistic = "/moving_" in weight.path
        members[f"weight_{number:04d}"] = values.astype(np.float32 if statistic else np.float16)
    with files.write_atomically(path) as temporary:
        np.savez_compressed(temporary, **members)  # type: ignore[arg-type]


def read_network(path: str | os.PathLike, *bases: type[tf.keras.Model]) -> Any:
    """Reads a network in float32, whatever the current policy is.

    `tf.keras.models.load_model` would build any objects that a file asks for, of any size.

    Args:
        path: A `.keras` file, or an `.npz` file of `write_weights`.
        bases: Classes of networks to accept, and registered subclasses of them.
    """
    path = pathlib.Path(path)
    packed = path.suffix == ".npz"
    weights: list[np.ndarray] = []
    try:
        if packed:
            with np.load(path, allow_pickle=False) as members:
                config = json.loads(members[_CONFIG].tobytes())
                weights = [members[name].astype(np.float32) for name in sorted(members.files)[1:]]
            name = config.get(_CLASS, "doap_tf>DescriptorNetwork")
        else:
            with zipfile.ZipFile(path) as archive:
                saved = json.loads(archive.read("config.json"))
            config, name = saved["config"], saved["registered_name"] or saved["class_name"]
        network_class = tf.keras.utils.get_registered_object(name)
        if inspect.isclass(network_class) and issubclass(network_class, bases):
            stored_bytes = sum(each.nbytes for each in weights) or path.stat().st_size
            network = _build(network_class, config, stored_bytes)
            if packed:
                network.set_weights(weights)
            else:
                network.load_weights(path)
            return network
    except Exception as error:  # NumPy, zipfile, JSON, HDF5 and Keras raise nearly anything
        reason = one_line(error)
        if packed:
            raise InputError(f"{path} does not hold the weights of a network: {reason}") from error
        raise InputError(f"{path} cannot be read as a Keras model: {reason}") from error
    raise InputError(
        f"{path} holds a {name}, not a {' or '.join(base.__name__ for base in bases)}; if it is a "
        "subclass, import the module that registers it first."
    )


def _rounded(kernel: np.ndarray, bits: int) -> np.ndarray:
    """Rounds a kernel [..., outputs] to multiples of a power of two for each output."""
    largest = np.abs(kernel).max(axis=tuple(range(kernel.ndim - 1)))
    # A subnormal step would be lost in float16.
    steps = 2.0 ** np.maximum(np.ceil(np.log2(np.maximum(largest, 1e-9))) + 1 - bits, -24)
    return np.rint(kernel / steps) * steps


def _build(network_class: Any, config: dict[str, Any], stored_bytes: int) -> Any:
    """Builds a network from the configuration in a file, which may be damaged.

    Keras' `from_config` would build any layers that the configuration lists; only the arguments
    that the constructors name are taken from it.
    """
    if network_class.least_weights(config) > stored_bytes:
        raise ValueError("its configuration is for more weights than it holds")
    classes = itertools.takewhile(lambda each: each is not tf.keras.Model, network_class.__mro__)
    named = {name for each in classes for name in inspect.signature(each).parameters}
    arguments = {name: value for name, value in config.items() if name in named}
    network = network_class(**{**arguments, "name": str(config["name"]), "dtype": "float32"})
    size = getattr(network, "input_size", None)
    network.build((None, size, size, 1))
    return network
