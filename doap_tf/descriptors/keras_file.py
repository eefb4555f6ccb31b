"""Reading networks that Keras saved, without letting the file choose what is built."""

import inspect
import json
import os
import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork


def read_keras(path: str | os.PathLike) -> DescriptorNetwork:
    """Reads the `.keras` file of a `DescriptorNetwork`, or of a registered subclass.

    `tf.keras.models.load_model` would build any objects that a file asks for, of any size.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            saved = json.loads(archive.read("config.json"))
        name = saved["registered_name"] or saved["class_name"]
        network_class = tf.keras.utils.get_registered_object(name)
        if inspect.isclass(network_class) and issubclass(network_class, DescriptorNetwork):
            size = pathlib.Path(path).stat().st_size
            network = build_network(saved["config"], size, network_class)
            network.load_weights(path)
            return network
    except Exception as error:  # zipfile, JSON, HDF5 and Keras raise nearly anything
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as a Keras model: {reason}") from error
    raise InputError(
        f"{path} holds a {name}, not a DescriptorNetwork; if it is a subclass, import the module "
        "that registers it first."
    )


def build_network(
    config: Mapping[str, Any],
    stored_bytes: int,
    network_class: type[DescriptorNetwork] = DescriptorNetwork,
) -> DescriptorNetwork:
    """Builds a network from the configuration in a file, which may be damaged.

    Of the configuration only arguments that the constructors name are used: Keras' `from_config`
    would build any layers it lists. The weights are float32, whatever the current policy is.
    """
    # The last kernel has about this many values: a damaged file must not ask for all memory.
    last_kernel = config.get("output_dim", 0) * config.get("width", 0) * 8192
    if network_class is DescriptorNetwork and last_kernel > stored_bytes:
        raise ValueError("its configuration is for more weights than it holds")
    bases = network_class.__mro__[: network_class.__mro__.index(DescriptorNetwork) + 1]
    named = {name for base in bases for name in inspect.signature(base).parameters}
    arguments = {name: value for name, value in config.items() if name in named}
    network = network_class(**{**arguments, "name": str(config["name"]), "dtype": "float32"})
    network.build((None, network.input_size, network.input_size, 1))
    return network
