"""Trained networks that another one learns from."""

from collections.abc import Sequence

import tensorflow as tf

from doap_tf.descriptors.patch_resizing import resizing_weights
from doap_tf.networks import DescriptorNetwork


class Teachers:
    """Networks in the precision of the context, which do not learn.

    Args:
        trained: The networks, which are copied.
        patch_size: Side of the patches that they are given.
    """

    def __init__(self, trained: Sequence[DescriptorNetwork], patch_size: int):
        self._networks = [_copy(network) for network in trained]
        # Multiplied with, because XLA does not compile `resize_patches`.
        self._resizing = {
            network.input_size: resizing_weights(patch_size, network.input_size)
            for network in self._networks
            if network.input_size != patch_size
        }

    def __call__(self, patches: tf.Tensor) -> tf.Tensor:
        """Returns rows [M, D] whose cosine similarities are the mean of the teachers'.

        Args:
            patches: float32 [M, S, S, 1].
        """
        inputs = {
            size: tf.einsum("ih,nhwc,jw->nijc", matrix, patches, matrix)
            for size, matrix in self._resizing.items()
        }
        rows = [
            network(inputs.get(network.input_size, patches), training=False)
            for network in self._networks
        ]
        return tf.concat([tf.math.l2_normalize(each, axis=1) for each in rows], axis=1)


def _copy(trained: DescriptorNetwork) -> DescriptorNetwork:
    config = trained.get_config()
    del config["dtype"]
    teacher = type(trained).from_config({**config, "trainable": False})
    teacher.build((None, trained.input_size, trained.input_size, 1))
    teacher.set_weights(trained.get_weights())
    return teacher
