"""Converting a dense network for LiteRT: maps of an image, and descriptors of sampled points."""

import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf import tflite_metadata
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError, check_choice
from doap_tf.export.inference_network import inference_network, with_constant_weights
from doap_tf.export.point_description import describing_function
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.quiet import stderr_discarded
from doap_tf.tflite_metadata import PRECISIONS
from doap_tf.tflite_quantization import add_ranges, quantize

CALIBRATION_PHOTOGRAPHS = (
    "astronaut",
    "camera",
    "chelsea",
    "coffee",
    "rocket",
    "stereo_motorcycle",
)
_CALIBRATION_SIZE = (384, 512)  # of these photographs for a network that takes any


def convert_dense_to_tflite(
    network: DenseNetwork,
    image_sizes: Sequence[tuple[int, int]] = (),
    rows: int | None = None,
    precision: str = "float32",
) -> bytes:
    """Converts a dense network to a .tflite model with builtin operators only.

    The model has two signatures. `read` takes `images`, float32 [1, H, W, 1], grey values 0 to 255,
    and `statistics`, float32 [1, 2], mean and standard deviation of the image. It returns `scores`,
    float32 [1, H, W, 1], and the maps `features4`, `features8`, `features16` and `features32`,
    [1, H / s, W / s, C]. An image whose sides are not multiples of 32 is padded with its mean.
    `describe` takes `sampled`, float32 [N, C], values of these maps at N points side by side, and
    returns `descriptors`: float32 [N, D], or packed bits, uint8 [N, bits / 8].

    Args:
        network: A trained network.
        image_sizes: Fixed H and W, multiples of 32, which browsers require; by default any. For
            each of several, `read` has the signature `read_HxW`; all share the weights.
        rows: Fixed N; by default any.
        precision: `"float32"`; `"float16"`, half the size: weights are rounded, arithmetic is not;
            or `"int8"`: the convolutions of `read` compute in 8 bits besides the first, which takes
            the image, and the last, which gives scores; `describe` stays in float32. Ranges of
            activations are those of photographs of scikit-image. A model in float32 for any size
            has them too: `doap_tf.tflite_quantization.quantize` makes the one in int8 of it.

    Returns:
        The contents of a .tflite file.
    """
    for size in image_sizes:
        if min(size) < 1 or any(side % network.stride for side in size):
            raise InputError(
                f"image_sizes must be multiples of {network.stride}, not {size[0]}x{size[1]}."
            )
    network = inference_network(network)
    read = tf.function(reading_function(network, with_constant_weights(network)))
    readers: dict[str, tuple[int, int] | None]
    if len(image_sizes) > 1:
        readers = {f"read_{height}x{width}": (height, width) for height, width in image_sizes}
    else:
        readers = {"read": image_sizes[0] if image_sizes else None}
    signatures = {"describe": describing_function(network, rows)}
    for name, fixed in readers.items():
        signatures[name] = read.get_concrete_function(
            tf.TensorSpec([1, *(fixed or (None, None)), 1], tf.float32, "images"),
            tf.TensorSpec([1, 2], tf.float32, "statistics"),
        )
    calibrated = precision == "int8" or not image_sizes
    examples = {
        name: _images_with_statistics(fixed) for name, fixed in readers.items() if calibrated
    }
    model = convert_signatures(signatures, examples, precision)
    return tflite_metadata.attach(
        model, dense_metadata(network, precision, image_size=list(image_sizes) or None, rows=rows)
    )


def reading_function(
    network: DenseNetwork, infer: Callable[..., Any]
) -> Callable[..., dict[str, tf.Tensor]]:
    """Returns the signature `read` of a network, given what computes its maps."""

    def read(images: tf.Tensor, statistics: tf.Tensor) -> dict[str, tf.Tensor]:
        maps = infer(images, statistics)
        levels = zip(network.feature_strides, maps.features, strict=True)
        return {"scores": maps.scores, **{f"features{stride}": level for stride, level in levels}}

    return read


def convert_signatures(
    signatures: Mapping[str, Any],
    examples: Mapping[str, Iterable[Mapping[str, np.ndarray]]],
    precision: str,
) -> bytes:
    """Converts functions with constant weights to a .tflite model.

    Args:
        signatures: The functions by name.
        examples: Inputs of those that may compute in 8 bits, from which ranges are taken.
        precision: See `convert_dense_to_tflite`.
    """
    check_choice("precision", precision, PRECISIONS)
    with warnings.catch_warnings(), stderr_discarded(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the converter warns about its own deprecated parts
        tf.saved_model.save(tf.Module(), folder, signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(signatures)
        )
        if precision == "float16":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.target_spec.supported_types = [tf.float16]
        model = converter.convert()
    if precision != "float16":
        for name, values in examples.items():
            model = add_ranges(model, name, values)
    return quantize(model) if precision == "int8" else model


def dense_metadata(network: DenseNetwork, precision: str, **further: Any) -> dict[str, Any]:
    """What a .tflite file says about its network."""
    return {
        "network": "DenseNetwork",
        "feature_strides": network.feature_strides,
        "head": network.head,
        "output_dim": network.output_dim,
        "margin": network.margin,
        "precision": precision,
        "weights_sha256": weights_sha256(network),
        **further,
    }


def sample_photographs(
    size: tuple[int, int], names: Sequence[str] = CALIBRATION_PHOTOGRAPHS
) -> Iterator[np.ndarray]:
    """Photographs of scikit-image resized to a height and width, uint8 [H, W]."""
    import cv2
    import skimage.data

    from doap_tf.readers.images import as_grey

    for name in names:
        photograph = getattr(skimage.data, name)()
        grey = as_grey(photograph[0] if isinstance(photograph, tuple) else photograph)
        yield cv2.resize(grey, size[::-1], interpolation=cv2.INTER_AREA)


def _images_with_statistics(size: tuple[int, int] | None) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of `read`."""
    for grey in sample_photographs(size or _CALIBRATION_SIZE):
        yield {
            "images": grey[np.newaxis, ..., np.newaxis].astype(np.float32),
            "statistics": np.array([[grey.mean(), grey.std()]], np.float32),
        }
