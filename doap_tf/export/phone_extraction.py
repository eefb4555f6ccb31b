"""Keypoints and descriptors of an image of one size, by builtin operators of LiteRT alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from doap_tf import tflite_metadata
from doap_tf.errors import InputError
from doap_tf.export.dense_tflite import (
    convert_signatures,
    dense_metadata,
    sample_photographs,
)
from doap_tf.export.inference_network import inference_network, with_constant_weights
from doap_tf.export.point_description import describing_function
from doap_tf.features.dense_pyramid import LEVELS, SMALLER_LEVEL, SMALLEST_SIDE
from doap_tf.features.dense_pyramid import RADIUS as FRAME_RADIUS
from doap_tf.features.keypoint_maxima import (
    BORDER,
    RADIUS,
    SMOOTHING,
    TEXTURE,
    paraboloid_vertex,
)
from doap_tf.networks.dense_network import DenseNetwork

_FAR = 1e30  # what scores of pixels lose that are no keypoints
_LOWEST = -1e15  # of a keypoint's score
_REACH = 5  # pixels of the Gaussian that smooths scores, as OpenCV's

# Filters run down columns: XNNPACK is fast where neighbours in memory are channels.


def convert_extraction_to_tflite(
    network: DenseNetwork,
    image_size: tuple[int, int],
    max_keypoints: int,
    precision: str = "float32",
) -> bytes:
    """Converts a dense network to a .tflite model from image to descriptors, for phones.

    It has one signature, `detect_and_describe`: see `extracting_function`.

    Args:
        network: A trained network.
        image_size: Fixed H and W, multiples of 32.
        max_keypoints: Fixed number of keypoints.
        precision: See `convert_dense_to_tflite`.
    """
    if min(image_size) < SMALLEST_SIDE or any(side % network.stride for side in image_size):
        raise InputError(
            f"image_size must be multiples of {network.stride} from {SMALLEST_SIDE} on, not "
            f"{image_size[0]}x{image_size[1]}."
        )
    network = inference_network(network)
    name = "detect_and_describe"
    signatures = {name: extracting_function(network, image_size, max_keypoints)}
    examples = {}
    if precision == "int8":
        examples[name] = ({"image": grey} for grey in sample_photographs(image_size))
    model = convert_signatures(signatures, examples, precision)
    metadata = dense_metadata(
        network, precision, image_size=[list(image_size)], max_keypoints=max_keypoints
    )
    return tflite_metadata.attach(model, metadata)


def extracting_function(network: DenseNetwork, size: tuple[int, int], max_keypoints: int) -> Any:
    """Returns the signature `detect_and_describe` of a network, its weights constants.

    It takes `image`, uint8 [H, W], grey values, and returns the strongest K keypoints as
    `doap_tf.matching.DenseExtractor` finds them: `keypoints`, float32 [K, 3], x, y and radius,
    pixel centres at integers; `scores`, float32 [K], the highest first; `descriptors`, float32
    [K, D], or packed bits, uint8 [K, bits / 8]; and `count`, int32 [1], of how many rows are
    keypoints.

    Args:
        network: Built, in float32.
        size: H and W, multiples of 32.
        max_keypoints: K.
    """
    infer = with_constant_weights(network)
    describe = describing_function(network, max_keypoints)

    @tf.function(input_signature=[tf.TensorSpec(size, tf.uint8, "image")])
    def detect_and_describe(image: tf.Tensor) -> dict[str, tf.Tensor]:
        level = tf.cast(image, tf.float32)[tf.newaxis, :, :, tf.newaxis]
        found: list[tuple[tf.Tensor, ...]] = []
        for number in range(LEVELS):
            if number and min(size) >> number < SMALLEST_SIDE:
                break
            if number:
                level = tf.floor(tf.nn.avg_pool2d(level, 2, 2, "VALID") + 0.5)  # as OpenCV rounds
            scores, features = _read(network, infer, level)
            if number:
                *rest, points, sampled = found[-1]
                there = _sample(network, features, (points + 0.5) / 2 - 0.5)
                pooled = (sampled + SMALLER_LEVEL * there) / (1 + SMALLER_LEVEL)
                found[-1] = *rest, points, pooled
            points, strongest = _strongest(level, scores, max_keypoints)
            radii = tf.fill([len(points), 1], float(FRAME_RADIUS * 2**number))
            keypoints = tf.concat([(points + 0.5) * 2**number - 0.5, radii], 1)
            found.append((keypoints, strongest, points, _sample(network, features, points)))
        keypoints, scores, _, sampled = (tf.concat(part, 0) for part in zip(*found, strict=True))
        scores, order = tf.math.top_k(scores, max_keypoints)
        return {
            "keypoints": tf.gather(keypoints, order),
            "scores": scores,
            "count": tf.reduce_sum(tf.cast(scores > _LOWEST, tf.int32), keepdims=True),
            **describe(tf.gather(sampled, order)),
        }

    return detect_and_describe


def _read(
    network: DenseNetwork, infer: Any, image: tf.Tensor
) -> tuple[tf.Tensor, Sequence[tf.Tensor]]:
    """Scores [h, w] of a level [1, h, w, 1], and its maps of features."""
    _, height, width, _ = image.shape
    padding = [[0, 0], *([0, -side % network.stride] for side in (height, width)), [0, 0]]
    mean = tf.reduce_mean(image)
    deviation = tf.sqrt(tf.reduce_mean(tf.square(image - mean)))
    padded = tf.pad(image - mean, padding) + mean
    maps = infer(padded, tf.stack([mean, deviation])[tf.newaxis])
    return tf.reshape(maps.scores, padded.shape[1:3])[:height, :width], maps.features


def _sample(network: DenseNetwork, features: Sequence[tf.Tensor], points: tf.Tensor) -> tf.Tensor:
    """Values of maps at points [n, 2], as [n, C]."""
    sampled = network.sample(features, points[tf.newaxis])
    return tf.reshape(sampled, [len(points), network.feature_channels])


def _strongest(image: tf.Tensor, scores: tf.Tensor, count: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Points [n, 2] of a level's keypoints, and their scores, the highest first."""
    _, height, width, _ = image.shape
    image = tf.reshape(image, [height, width])
    scores = _smoothed(scores)
    inside = slice(BORDER, -BORDER)
    # By arithmetic, which delegates compute, unlike comparisons.
    texture = _highest(image, TEXTURE) + _highest(-image, TEXTURE)
    lacking = tf.minimum(scores - _highest(scores, 2 * RADIUS + 1), texture - 1.0)
    lacking = tf.minimum(lacking, 0.0)
    candidates = tf.reshape((scores + _FAR * lacking)[inside, inside], [-1])
    # Two maxima are more than the radius apart along an axis.
    most = min(count, height * width // (RADIUS + 1) ** 2)
    strongest, index = tf.math.top_k(candidates, most)
    across = width - 2 * BORDER
    column, row = index % across + BORDER, index // across + BORDER
    values, index = tf.reshape(scores, [-1]), row * width + column
    around = [-width - 1, -width, -width + 1, -1, 0, 1, width - 1, width, width + 1]
    *steps, denominator = paraboloid_vertex([tf.gather(values, index + step) for step in around])
    right, down = (
        tf.clip_by_value(step / tf.maximum(denominator, 1e-6), -0.5, 0.5) for step in steps
    )
    points = tf.stack([tf.cast(column, tf.float32) + right, tf.cast(row, tf.float32) + down], 1)
    return points, strongest


def _smoothed(scores: tf.Tensor) -> tf.Tensor:
    """Scores [h, w] convolved with a Gaussian, mirrored at the border."""
    kernel = np.exp(-((np.arange(-_REACH, _REACH + 1) / SMOOTHING) ** 2) / 2)
    kernel = (kernel / kernel.sum()).astype(np.float32).reshape(-1, 1, 1, 1)
    for _ in range(2):
        height, width = scores.shape
        mirrored = np.pad(np.arange(height), _REACH, "reflect")
        rows = tf.gather(scores, mirrored)[tf.newaxis, :, tf.newaxis]
        weights = np.broadcast_to(kernel, [len(kernel), 1, width, 1])
        rows = tf.nn.depthwise_conv2d(rows, weights, [1, 1, 1, 1], "VALID")
        scores = tf.transpose(tf.reshape(rows, [height, width]))
    return scores


def _highest(image: tf.Tensor, side: int) -> tf.Tensor:
    """The highest values in the squares around the pixels of an image [h, w]."""
    for _ in range(2):
        rows = tf.nn.max_pool2d(image[tf.newaxis, :, tf.newaxis], [side, 1], 1, "SAME")
        image = tf.transpose(tf.reshape(rows, image.shape))
    return image
