"""Trained networks that another one learns from."""

from collections.abc import Sequence

import tensorflow as tf

from doap_tf.descriptors.patch_resizing import resizing_weights
from doap_tf.descriptors.registry import from_pretrained
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork


class Teachers:
    """Networks in the precision of the context, which do not learn.

    Args:
        names: What `from_pretrained` takes, but no exports.
        patch_size: Side of the patches that they are given.
    """

    def __init__(self, names: Sequence[str], patch_size: int):
        self._networks = [_load(name) for name in names]
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


def _load(name: str) -> DescriptorNetwork:
    try:
        trained = from_pretrained(name).network
    except InputError as error:
        raise InputError(f"teacher: {error}") from error
    if trained is None:
        raise InputError(f"the teacher {name} is an export: give the .keras file it came from.")
    config = trained.get_config()
    del config["dtype"]
    teacher = type(trained).from_config({**config, "trainable": False})
    teacher.build((None, trained.input_size, trained.input_size, 1))
    teacher.set_weights(trained.get_weights())
    return teacher
