"""Reading descriptor networks that Keras saved."""

import os
from collections.abc import Mapping
from typing import Any

from doap_tf.networks import TRUNKS, DescriptorNetwork, keras_reading


def read_keras(path: str | os.PathLike) -> DescriptorNetwork:
    """Reads the `.keras` file of a `DescriptorNetwork`, or of a registered subclass."""
    return keras_reading.read_keras(path, DescriptorNetwork, build_network)


def build_network(
    config: Mapping[str, Any],
    stored_bytes: int,
    network_class: type[DescriptorNetwork] = DescriptorNetwork,
) -> DescriptorNetwork:
    """Builds a network from the configuration in a file, which may be damaged."""
    if network_class is DescriptorNetwork:
        # A damaged file must not ask for all memory: the last kernel has about this many values.
        shape = TRUNKS[config.get("trunk", "l2net")]
        last_kernel = config.get("output_dim", 0) * config.get("width", 0) * shape.last_inputs
        if last_kernel > stored_bytes:
            raise ValueError("its configuration is for more weights than it holds")
    arguments = keras_reading.constructor_arguments(config, network_class, DescriptorNetwork)
    network = network_class(**arguments)
    network.build((None, network.input_size, network.input_size, 1))
    return network
