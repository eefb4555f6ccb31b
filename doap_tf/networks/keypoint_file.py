"""Reading keypoint networks: the one that ships, or the result of a training."""

import os
import pathlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from doap_tf import runs
from doap_tf.errors import InputError
from doap_tf.networks.keras_reading import constructor_arguments, holds, read_keras
from doap_tf.networks.keypoint_network import KeypointNetwork

SHIPPED_KEYPOINTS = pathlib.Path(__file__).parents[1] / "features" / "weights" / "keypoints.keras"


def load_keypoint_network(path: str | os.PathLike | None = None) -> KeypointNetwork:
    """Loads a keypoint network.

    Args:
        path: A `.keras` file or a training directory; by default the network that ships.
    """
    path = SHIPPED_KEYPOINTS if path is None else runs.model_file(path)
    if not path.exists():
        raise InputError(f"{path} does not exist: give a .keras file or a training directory.")
    return read_keras(path, KeypointNetwork, _build)


def holds_keypoint_network(path: str | os.PathLike) -> bool:
    """Whether a path is a `.keras` file or a training directory of a keypoint network."""
    return holds(runs.model_file(path), KeypointNetwork)


def _build(
    config: Mapping[str, Any], stored_bytes: int, network_class: type[KeypointNetwork]
) -> KeypointNetwork:
    arguments = constructor_arguments(config, network_class, KeypointNetwork)
    # A damaged file must not ask for all memory.
    channels = [config["stride"] ** 2, *config["filters"], config["stride"] ** 2]
    if sum(before * after for before, after in pairwise(channels)) > stored_bytes:
        raise ValueError("its configuration is for more weights than it holds")
    network = network_class(**arguments)
    network.build((None, None, None, 1))
    return network
