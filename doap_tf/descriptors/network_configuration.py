"""Networks from configurations in files, which may be damaged or ill-meant."""

import inspect
from collections.abc import Mapping
from typing import Any

from doap_tf.networks import DescriptorNetwork
from doap_tf.networks.l2net import kernel_values

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


def build_network(arguments: Mapping[str, Any], stored: int) -> DescriptorNetwork:
    """A network whose weights can be set.

    Args:
        arguments: What `network_arguments` gave.
        stored: How many values the file holds. A network of more is refused before room is made.
    """
    if kernel_values(arguments["output_dim"], arguments["width"]) > stored:
        raise ValueError("its weights are fewer than its configuration wants")
    network = DescriptorNetwork(**arguments)
    network.build((None, network.input_size, network.input_size, 1))
    return network
