"""Running a Keras network under `doap_tf.Descriptor`."""

import functools
import hashlib

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from doap_tf.networks import DescriptorNetwork


class KerasBackend:
    """Runs a Keras network in a compiled graph."""

    name = "keras"

    def __init__(self, network: DescriptorNetwork):
        self.network = network
        self.precision: str = network.compute_dtype
        self.input_size = network.input_size
        self.head = network.head
        self.output_dim = network.output_dim
        self.magnification = network.magnification
        size = network.input_size
        graph = tf.function(network.describe_packed if network.head == "binary" else network)
        self._graph_for = functools.cache(
            lambda kind: graph.get_concrete_function(tf.TensorSpec([None, size, size, 1], kind))
        )

    def infer(self, patches: np.ndarray) -> npt.ArrayLike:
        """See `doap_tf.descriptors.Backend.infer`."""
        count = len(patches)
        if missing := _round_size(count) - count:
            patches = np.pad(patches, [(0, missing), (0, 0), (0, 0), (0, 0)])
        tensor = tf.convert_to_tensor(patches)
        return self._graph_for(tensor.dtype)(tensor)[:count]

    def weights_sha256(self) -> str:
        """See `doap_tf.descriptors.Backend.weights_sha256`."""
        return weights_sha256(self.network)


def weights_sha256(network: tf.keras.Model) -> str:
    """SHA-256 of all weights in their order."""
    digest = hashlib.sha256()
    for weight in network.get_weights():
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()


def _round_size(count: int) -> int:
    """Rounds up to one of eight sizes between two powers of two.

    On CPUs TensorFlow keeps compiled kernels for every batch size it has seen, so sizes that vary
    freely would fill up the memory.
    """
    step = 1 << max(0, count.bit_length() - 4)
    return -(-count // step) * step
