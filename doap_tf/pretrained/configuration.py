"""Networks from configurations in files, which may be damaged or ill-meant."""

import inspect
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from doap_tf.networks import DescriptorNetwork

_ARGUMENTS = [
    parameter.name
    for parameter in inspect.signature(DescriptorNetwork).parameters.values()
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
]


def network_arguments(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a network is made with: of a configuration only what our constructor names.

    Keras's `from_config` would build any layers that the configuration lists. The weights are
    float32, whatever the current policy is.
    """
    arguments = {name: config[name] for name in _ARGUMENTS if name in config}
    return {**arguments, "name": str(config["name"]), "dtype": "float32"}


def build_network(arguments: Mapping[str, Any]) -> DescriptorNetwork:
    """A network whose weights can be set."""
    network = DescriptorNetwork(**arguments)
    network.build((None, network.input_size, network.input_size, 1))
    return network


def weight_shapes(arguments: Mapping[str, Any]) -> list[tuple[int, ...]]:
    """The shapes of the weights of a network, found without room for a single one of them."""
    with tf.keras.StatelessScope(initialize_variables=False):
        return [tuple(weight.shape) for weight in build_network(arguments).weights]
