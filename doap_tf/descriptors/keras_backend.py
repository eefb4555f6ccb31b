"""Running a Keras network under `doap_tf.Descriptor`."""

import collections
import functools
import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from doap_tf.networks import DescriptorNetwork

COMPILE_AFTER = 1 << 20  # patches in batches of one size; compiling takes seconds


class KerasBackend:
    """Runs a Keras network in a graph.

    On a GPU, XLA compiles the graph for batch sizes in which many patches come.
    """

    name = "keras"

    def __init__(self, network: DescriptorNetwork):
        self.network = network
        self.precision: str = network.compute_dtype
        self.input_size = network.input_size
        self.head = network.head
        self.output_dim = network.output_dim
        self.magnification = network.magnification
        self._compiles = bool(tf.config.list_logical_devices("GPU"))
        self._described: collections.Counter[int] = collections.Counter()  # by batch size
        call = network.describe_packed if network.head == "binary" else network
        self._graph_for = functools.cache(functools.partial(_trace, call, network.input_size))

    def __reduce__(self) -> tuple:
        return type(self), (self.network,)

    def infer(self, patches: np.ndarray) -> npt.ArrayLike:
        """See `doap_tf.descriptors.Backend.infer`."""
        count = len(patches)
        size = _round_size(count)
        if missing := size - count:
            patches = np.pad(patches, [(0, missing), (0, 0), (0, 0), (0, 0)])
        tensor = tf.convert_to_tensor(patches)
        often = self._compiles and self._described[size] >= COMPILE_AFTER
        self._described[size] += count
        return self._graph_for(tensor.dtype, size if often else None)(tensor)[:count]

    def weights_sha256(self) -> str:
        """See `doap_tf.descriptors.Backend.weights_sha256`."""
        return weights_sha256(self.network)


def weights_sha256(network: tf.keras.Model) -> str:
    """SHA-256 of all weights in their order."""
    digest = hashlib.sha256()
    for weight in network.get_weights():
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()


def _trace(
    call: Callable[[tf.Tensor], tf.Tensor], side: int, kind: tf.DType, size: int | None
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a network as a graph, or compiled by XLA for batches of one size."""
    graph = tf.function(call, jit_compile=size is not None)
    return graph.get_concrete_function(tf.TensorSpec([size, side, side, 1], kind))


def _round_size(count: int) -> int:
    """Rounds up to one of eight sizes between two powers of two.

    On CPUs TensorFlow keeps compiled kernels for every batch size it has seen, so sizes that vary
    freely would fill up the memory.
    """
    step = 1 << max(0, count.bit_length() - 4)
    return -(-count // step) * step
