"""Reading networks that Keras saved, without letting the file choose what is built."""

import io
import json
import os
import zipfile

import h5py

from doap_tf.descriptors.network_configuration import build_network, network_arguments
from doap_tf.errors import InputError
from doap_tf.networks import DescriptorNetwork


def read_keras(path: str | os.PathLike) -> DescriptorNetwork:
    """Reads the `.keras` file of a `DescriptorNetwork`.

    Not `tf.keras.models.load_model`: it makes whatever objects a file asks for, as large as it asks
    for.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            saved = json.loads(archive.read("config.json"))
            weights = archive.read("model.weights.h5")
        kind = saved["class_name"]
        if kind == DescriptorNetwork.__name__:
            network = build_network(network_arguments(saved["config"]), _stored_values(weights))
            network.load_weights(path)
            return network
    except Exception as error:  # zipfile, JSON, HDF5 and Keras raise nearly anything
        reason = " ".join(str(error).split())
        raise InputError(f"{path} cannot be read as a Keras model: {reason}") from error
    raise InputError(f"{path} holds a {kind}, not a DescriptorNetwork.")


def _stored_values(weights: bytes) -> int:
    """How many numbers an HDF5 file holds; raises a ValueError if it only claims some."""
    sizes = []

    def visit(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset):
            if item.nbytes > item.id.get_storage_size():
                raise ValueError(f"{name} is not all there")
            sizes.append(item.size)

    with h5py.File(io.BytesIO(weights)) as file:
        file.visititems(visit)
    return sum(sizes)
