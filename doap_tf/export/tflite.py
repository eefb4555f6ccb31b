"""Converting a network for LiteRT (TensorFlow Lite), the runtime for phones."""

import itertools
import os
import pathlib
import re
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from doap_tf import files, tflite_metadata
from doap_tf.errors import InputError, check_choice
from doap_tf.export.inference_network import FrozenNetwork
from doap_tf.export.model_card import network_metadata
from doap_tf.networks.descriptor_network import DescriptorNetwork
from doap_tf.preprocessing import resize_patches
from doap_tf.progress import progress
from doap_tf.quiet import stderr_discarded
from doap_tf.tflite_metadata import PRECISIONS

_QUANTISED = re.compile(r"trunk\w*/(?!block1_)")
_CALIBRATION_BATCH = 32
_CALIBRATION_PATCHES = 512


def export_tflite(
    network: DescriptorNetwork,
    directory: str | os.PathLike,
    name: str,
    precisions: Sequence[str] = PRECISIONS,
    batch_sizes: Sequence[int | None] = (None,),
    representative_patches: np.ndarray | None = None,
) -> list[pathlib.Path]:
    """Writes a .tflite file for every precision and batch size, once all are converted.

    Files are called NAME-PRECISION.tflite, or NAME-PRECISION-batchN.tflite for a fixed batch size.
    See `convert_to_tflite` for the arguments.
    """
    models = {}
    versions = list(itertools.product(precisions, batch_sizes))
    for precision, size in progress(versions, "converting", unit="file"):
        file = f"{name}-{precision}{'' if size is None else f'-batch{size}'}.tflite"
        models[pathlib.Path(directory) / file] = convert_to_tflite(
            network, precision, size, representative_patches
        )
    for path, model in models.items():
        files.write_file(path, model)
    return list(models)


def calibration_patches(patches: np.ndarray) -> np.ndarray:
    """Returns some of uint8 [P, S, S], from which int8 takes the ranges of activations."""
    rows = np.random.default_rng(0).permutation(len(patches))[:_CALIBRATION_PATCHES]
    return np.asarray(patches[np.sort(rows)])


def convert_to_tflite(
    network: DescriptorNetwork,
    precision: str = "float32",
    batch_size: int | None = None,
    representative_patches: np.ndarray | None = None,
) -> bytes:
    """Converts a network to a .tflite model with builtin operators only.

    The model takes `patches`, float32 [N, S, S, 1] of the network's input size and any scale, and
    returns `descriptors`: float32 [N, D], or packed bits, uint8 [N, bits / 8].

    Args:
        network: A trained network.
        precision: `"float32"`; `"float16"`, half the size: weights are rounded, arithmetic is not;
            or `"int8"`, a quarter of the size: weights and activations of the trunk have 8 bits.
            Standardisation stays in float because patches may have any scale, the spatial
            transformer because its coordinates need more than 8 bits, the first convolution (1 %
            of the arithmetic) because outliers take up its input's range.
        batch_size: Fixed N, which delegates for mobile GPUs require; by default N is free.
        representative_patches: Some hundred real patches, uint8 or float [P, H, H], from which
            int8 takes the ranges of activations.

    Returns:
        The contents of a .tflite file.
    """
    check_choice("precision", precision, PRECISIONS)
    frozen = FrozenNetwork(network, batch_size)
    with warnings.catch_warnings(), stderr_discarded():
        warnings.simplefilter("ignore")  # the converter warns about its own deprecated parts
        if precision == "int8":
            if representative_patches is None or not len(representative_patches):
                raise InputError(
                    "int8 requires representative_patches: some hundred patches like those of the "
                    "training."
                )
            patches = resize_patches(representative_patches[..., np.newaxis], network.input_size)
            model = _convert_to_int8(frozen, patches.numpy(), batch_size or _CALIBRATION_BATCH)
        else:
            model = _converter(frozen, precision).convert()
    metadata = network_metadata(network)
    return tflite_metadata.attach(
        model, {**metadata, "precision": precision, "batch_size": batch_size}
    )


def _converter(frozen: FrozenNetwork, precision: str) -> tf.lite.TFLiteConverter:
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [frozen.describe.get_concrete_function()], frozen
    )
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter


def _convert_to_int8(frozen: FrozenNetwork, patches: np.ndarray, batch_size: int) -> bytes:
    """Quantises the trunk's operations after the first convolution and no others."""

    def representative() -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, len(patches), batch_size):
            # The first patches fill up the last batch: a fixed batch size must not vary.
            yield {"patches": patches[np.arange(start, start + batch_size) % len(patches)]}

    converter = _converter(frozen, "int8")
    converter.representative_dataset = representative
    names = tflite_metadata.tensor_names(_converter(frozen, "float32").convert())
    # The only public interface that leaves operations out of quantisation.
    debugger = tf.lite.experimental.QuantizationDebugger(
        converter=converter,
        debug_dataset=representative,
        debug_options=tf.lite.experimental.QuantizationDebugOptions(
            denylisted_nodes=[name for name in names if not _QUANTISED.search(name)]
        ),
    )
    return debugger.get_nondebug_quantized_model()
