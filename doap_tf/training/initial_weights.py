"""Starting a network from the weights of trained ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf.errors import InputError


def start_from(network: tf.keras.Model, initial: Sequence[tf.keras.Model]) -> str:
    """Copies the weights of all layers that trained networks have at the same place.

    Of a layer with fewer outputs than theirs it takes the first; layers of other shapes stay as
    they are.

    Args:
        network: Built; its weights are overwritten.
        initial: Trained networks; later ones take precedence.

    Returns:
        A line that says which layers start anew.
    """
    given = {_place(weight): weight for trained in initial for weight in trained.weights}
    layers: dict[str, list[Any]] = {}
    for weight in network.weights:
        layers.setdefault(_layer(_place(weight)), []).append(weight)
    anew = []
    for layer, weights in layers.items():
        values = [
            given[_place(weight)].numpy()[..., : weight.shape[-1]] if _place(weight) in given else 0
            for weight in weights
        ]
        if [np.shape(each) for each in values] != [tuple(weight.shape) for weight in weights]:
            anew.append(layer)
            continue
        for weight, each in zip(weights, values, strict=True):
            weight.assign(each)
    if len(anew) == len(layers):
        raise InputError("the initial networks have no layer in common with the one to train.")
    names = ", ".join(anew) or "none"
    return (
        f"{len(layers) - len(anew)} of {len(layers)} layers start from the initial networks; "
        f"anew: {names}"
    )


def _place(weight: Any) -> str:
    """Returns the path of a weight below its network."""
    return str(weight.path).partition("/")[2]


def _layer(place: str) -> str:
    """Returns the path of the layer, or of the block of convolution and normalisation."""
    layer = place.rpartition("/")[0]
    return layer.removesuffix("/convolution").removesuffix("/normalization")
