"""Reading networks that Keras saved, without letting the file choose what is built."""

import inspect
import json
import os
import pathlib
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tensorflow as tf

from doap_tf.errors import InputError

_Network = TypeVar("_Network", bound=tf.keras.Model)


def read_keras(
    path: str | os.PathLike,
    base: type[_Network],
    build: Callable[[Mapping[str, Any], int, Any], _Network],
) -> _Network:
    """Reads the `.keras` file of a network of class `base`, or of a registered subclass.

    `tf.keras.models.load_model` would build any objects that a file asks for, of any size.

    Args:
        path: The file.
        base: Class of networks to accept.
        build: Builds a network from its configuration, the size of the file in bytes and the class.
    """
    try:
        saved = _saved_configuration(path)
        name = _class_name(saved)
        network_class = tf.keras.utils.get_registered_object(name)
        if inspect.isclass(network_class) and issubclass(network_class, base):
            network = build(saved["config"], pathlib.Path(path).stat().st_size, network_class)
            network.load_weights(path)
            return network
    except Exception as error:  # zipfile, JSON, HDF5 and Keras raise nearly anything
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as a Keras model: {reason}") from error
    raise InputError(
        f"{path} holds a {name}, not a {base.__name__}; if it is a subclass, import the module "
        "that registers it first."
    )


def holds(path: str | os.PathLike, base: type[_Network]) -> bool:
    """Whether a file is a `.keras` file of a network of class `base`."""
    try:
        name = _class_name(_saved_configuration(path))
    except Exception:  # as above
        return False
    return name == tf.keras.utils.get_registered_name(base)


def constructor_arguments(
    config: Mapping[str, Any], network_class: type[_Network], base: type[_Network]
) -> dict[str, Any]:
    """The arguments of a configuration that the constructors up to `base` name.

    Keras' `from_config` would build any layers that the configuration lists. The weights are
    float32, whatever the current policy is.
    """
    classes = network_class.__mro__[: network_class.__mro__.index(base) + 1]
    named = {name for known in classes for name in inspect.signature(known).parameters}
    arguments = {name: value for name, value in config.items() if name in named}
    return {**arguments, "name": str(config["name"]), "dtype": "float32"}


def _saved_configuration(path: str | os.PathLike) -> dict[str, Any]:
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("config.json"))


def _class_name(saved: dict[str, Any]) -> str:
    return saved["registered_name"] or saved["class_name"]
