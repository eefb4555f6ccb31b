"""Converts networks that ship for LiteRT, in a process of its own.

python -m doap_tf.zoo.convert PRECISION WEIGHTS FILE [WEIGHTS FILE ...]
"""

import sys

from doap_tf import files
from doap_tf.export.dense_tflite import convert_dense_to_tflite
from doap_tf.export.tflite import calibration_patches, convert_to_tflite
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.networks.descriptor_network import DescriptorNetwork
from doap_tf.networks.network_file import read_network
from doap_tf.patch_generation import GroupSettings, sample_groups


def main(precision: str, *paths: str) -> None:
    """Writes a .tflite file for each file of weights."""
    for weights, path in zip(paths[::2], paths[1::2], strict=True):
        network = read_network(weights, DescriptorNetwork, DenseNetwork)
        files.write_file(path, _converted(network, precision))


def _converted(network: DescriptorNetwork | DenseNetwork, precision: str) -> bytes:
    if isinstance(network, DenseNetwork):
        return convert_dense_to_tflite(network, precision=precision)
    patches = None
    if precision == "int8":
        size = network.input_size
        sample = sample_groups(GroupSettings(size, network.magnification))
        patches = calibration_patches(sample.reshape(-1, size, size))
    return convert_to_tflite(network, precision, representative_patches=patches)


if __name__ == "__main__":
    main(*sys.argv[1:])
