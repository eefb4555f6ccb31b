"""Converting a dense network for LiteRT: maps of an image, and descriptors of sampled points."""

import tempfile
import warnings
from collections.abc import Sequence

import tensorflow as tf

from doap_tf import tflite_metadata
from doap_tf.descriptors.keras_backend import weights_sha256
from doap_tf.errors import InputError
from doap_tf.export.inference_network import inference_network
from doap_tf.export.point_description import describing_function
from doap_tf.networks.dense_network import DenseNetwork
from doap_tf.quiet import stderr_discarded


def convert_dense_to_tflite(
    network: DenseNetwork,
    image_sizes: Sequence[tuple[int, int]] = (),
    rows: int | None = None,
) -> bytes:
    """Converts a dense network to a .tflite model with builtin operators only.

    The model has two signatures. `read` takes `images`, float32 [1, H, W, 1], grey values 0 to 255,
    and `statistics`, float32 [1, 2], mean and standard deviation of the image. It returns `scores`,
    float32 [1, H, W, 1], and the maps `features4`, `features8`, `features16` and `features32`,
    [1, H / s, W / s, C]. An image whose sides are not multiples of 32 is padded with its mean.
    `describe` takes `sampled`, float32 [N, C], values of these maps at N points side by side, of a
    `ContextNetwork` also `patches` around them, float32 [N, 32, 32, 1], and returns `descriptors`:
    float32 [N, D], or packed bits, uint8 [N, bits / 8].

    Args:
        network: A trained network.
        image_sizes: Fixed H and W, multiples of 32, which browsers require; by default any. For
            each of several, `read` has the signature `read_HxW`; all share the weights.
        rows: Fixed N; by default any.

    Returns:
        The contents of a .tflite file.
    """
    for size in image_sizes:
        if min(size) < 1 or any(side % network.stride for side in size):
            raise InputError(
                f"image_sizes must be multiples of {network.stride}, not {size[0]}x{size[1]}."
            )
    network = inference_network(network)
    weights = [
        [variable.numpy() for variable in variables]
        for variables in (network.trainable_variables, network.non_trainable_variables)
    ]

    @tf.function
    def read(images: tf.Tensor, statistics: tf.Tensor) -> dict[str, tf.Tensor]:
        # Keras variables would stay variables without values in a converted model.
        constants = ([tf.constant(value) for value in values] for values in weights)
        maps, _ = network.stateless_call(*constants, images, statistics, training=False)
        levels = zip(network.feature_strides, maps.features, strict=True)
        return {"scores": maps.scores, **{f"features{stride}": level for stride, level in levels}}

    signatures = {"describe": describing_function(network, rows)}
    sizes: Sequence[tuple[int | None, int | None]] = image_sizes or [(None, None)]
    for height, width in sizes:
        name = f"read_{height}x{width}" if len(sizes) > 1 else "read"
        signatures[name] = read.get_concrete_function(
            tf.TensorSpec([1, height, width, 1], tf.float32, "images"),
            tf.TensorSpec([1, 2], tf.float32, "statistics"),
        )

    with warnings.catch_warnings(), stderr_discarded(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # the converter warns about its own deprecated parts
        tf.saved_model.save(tf.Module(), folder, signatures)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(signatures)
        )
        model = converter.convert()
    metadata = {
        "network": "DenseNetwork",
        "feature_strides": network.feature_strides,
        "head": network.head,
        "output_dim": network.output_dim,
        "margin": network.margin,
        "image_size": list(image_sizes) or None,
        "rows": rows,
        "weights_sha256": weights_sha256(network),
        **_about_patches(network),
    }
    return tflite_metadata.attach(model, metadata)


def _about_patches(network: DenseNetwork) -> dict[str, float]:
    names = ("patch_size", "magnification")
    return {name: getattr(network, name) for name in names if hasattr(network, name)}
