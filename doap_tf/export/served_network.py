"""The signatures of a SavedModel: a network with its preprocessing in the graph."""

import math
from collections.abc import Callable

import tensorflow as tf

from doap_tf.export.inference_network import inference_network, with_constant_weights
from doap_tf.export.served_images import (
    MOST_PIXELS,
    concatenate,
    decode_image,
    detect_in_batch,
    traced,
)
from doap_tf.features.gradients import SAMPLES
from doap_tf.features.graph import GraphDetector, GraphPyramid, cut_patches, dominant_angles
from doap_tf.networks import DescriptorNetwork, KeypointNetwork, pack_bits
from doap_tf.preprocessing import resize_patches

# Patches that run through the network at a time: bounds a server's memory whatever a request
# holds (with a spatial transformer a patch takes 0.7 MB) and costs no time.
_CHUNK = 256
_FARTHEST = 1e6  # pixels; a frame with larger numbers is not one of an image


class ServedNetwork:
    """The signatures of one network.

    All are batch-major, so that a server may join requests, and rows are independent: a patch that
    holds NaN affects only its own row.

    Args:
        network: A built network.
        keypoints: The network that finds the keypoints of `detect_and_describe`.
    """

    def __init__(self, network: DescriptorNetwork, keypoints: KeypointNetwork):
        self.network = network
        keypoints = inference_network(keypoints)
        self._detector = GraphDetector(
            with_constant_weights(keypoints),
            keypoints.stride,
            keypoints.receptive_field,
            keypoints.radius,
        )
        size = network.input_size
        # Traced once and called by every signature: smaller and faster to write and load.
        self._infer = tf.function(
            lambda patches: network(patches, training=False),
            input_signature=[tf.TensorSpec([None, size, size, 1], tf.float32)],
        )

    def serving_default(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes patches of any square size, grey values of any scale."""
        return {"descriptors": self._describe(patches)}

    def describe_uint8(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes 8-bit patches of any square size; a quarter of the traffic."""
        return {"descriptors": self._describe(patches)}

    def describe_packed(self, patches: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes 8-bit patches of any square size in bits, in the order of numpy.packbits."""
        return {"packed": pack_bits(self._describe(patches))}

    def describe_image(self, images: tf.Tensor, frames: tf.Tensor) -> dict[str, tf.Tensor]:
        """Describes K frames of each of B images, at the magnification the model was trained for.

        Images are JPEG or PNG files; their EXIF orientation is not applied. Frames are row-major
        2×3 maps from the unit circle to pixels (centres at integers, x right, y down). Padding
        (rows of zeros) and other frames without an area give zeros.
        """
        count, dimension = tf.shape(frames)[1], self.network.output_dim
        check = tf.debugging.assert_equal(
            tf.shape(frames)[0], tf.size(images), "frames must have one row per image."
        )
        with tf.control_dependencies([check]):
            frames = tf.identity(frames)

        def describe(number: tf.Tensor) -> tf.Tensor:
            # A server that pads inputs repeats the first number: such rows have no area either.
            rows = tf.where(_has_area(frames[number]))
            patches = cut_patches(
                decode_image(images[number]),
                tf.gather_nd(frames[number], rows),
                self.network.input_size,
                self.network.magnification,
            )
            return tf.scatter_nd(
                tf.cast(rows, tf.int32),
                self._describe(patches[..., tf.newaxis]),
                [count, dimension],
            )

        descriptors = concatenate(tf.size(images), describe, dimension)
        outputs = {"descriptors": descriptors}
        if self.network.head == "binary":
            outputs["packed"] = pack_bits(descriptors)
        return {
            name: tf.reshape(rows, [tf.size(images), count, rows.shape[1]])
            for name, rows in outputs.items()
        }

    def detect_and_describe(
        self, images: tf.Tensor, max_keypoints: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Finds the strongest keypoints of each of B images and describes them.

        Images are JPEG or PNG files of up to 2²⁴ pixels; their EXIF orientation is not applied.
        Keypoints are x, y (centres at integers, x right, y down), size (twice the radius) and angle
        in degrees, as those of OpenCV, the strongest first. Image i has `counts[i]` of them, at
        most `max_keypoints[i]`; further rows, up to the largest count, are zeros.
        """
        binary = self.network.head == "binary"
        return detect_in_batch(images, max_keypoints, self._detect, self.network.output_dim, binary)

    def signatures(self) -> dict[str, tf.types.experimental.ConcreteFunction]:
        """All signatures of this network by name, traced."""
        float32_patches = tf.TensorSpec([None, None, None, 1], tf.float32, "patches")
        uint8_patches = tf.TensorSpec([None, None, None, 1], tf.uint8, "patches")
        images = tf.TensorSpec([None], tf.string, "images")
        frames = tf.TensorSpec([None, None, 6], tf.float32, "frames")
        max_keypoints = tf.TensorSpec([None], tf.int32, "max_keypoints")
        specs: dict[Callable, list[tf.TensorSpec]] = {
            self.serving_default: [float32_patches],
            self.describe_uint8: [uint8_patches],
            self.describe_image: [images, frames],
            self.detect_and_describe: [images, max_keypoints],
        }
        if self.network.head == "binary":
            specs[self.describe_packed] = [uint8_patches]
        return traced(specs)

    def _detect(self, image: tf.Tensor, max_keypoints: tf.Tensor) -> tf.Tensor:
        """x, y, size, angle, score and descriptor of the keypoints of an image, [n, 5 + D]."""
        grey = decode_image(image, MOST_PIXELS)
        x, y, radius, score = self._detector.detect(grey, max_keypoints)
        size, magnification = self.network.input_size, self.network.magnification
        longest_step = tf.reduce_max(radius) * max(1 / SAMPLES, 2.0 * magnification / size)
        pyramid = GraphPyramid(grey, longest_step)
        upright = _circles(x, y, radius, tf.zeros_like(x))

        def describe(number: tf.Tensor) -> tf.Tensor:
            chunk = slice(number * _CHUNK, (number + 1) * _CHUNK)
            angle = dominant_angles(pyramid, upright[chunk])
            frames = _circles(x[chunk], y[chunk], radius[chunk], angle)
            descriptors = self._infer(pyramid.cut(frames, size, magnification)[..., tf.newaxis])
            degrees = tf.math.floormod(angle * (180.0 / math.pi), 360.0)
            return tf.concat([degrees[:, tf.newaxis], descriptors], axis=1)

        chunks = -(-tf.size(x) // _CHUNK)
        rows = concatenate(chunks, describe, 1 + self.network.output_dim)
        keypoints = tf.stack([x, y, 2.0 * radius, rows[:, 0], score], axis=1)
        return tf.concat([keypoints, rows[:, 1:]], axis=1)

    def _describe(self, patches: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(patches)
        checks = [
            tf.debugging.assert_equal(shape[1], shape[2], "patches must be square."),
            # Neither TensorFlow nor a server compares a request with the signature's last 1.
            tf.debugging.assert_equal(
                tf.size(patches), tf.reduce_prod(shape[:3]), "patches must have one channel."
            ),
        ]
        with tf.control_dependencies(checks):  # no other node must fail first
            patches = tf.identity(patches)

        def describe(number: tf.Tensor) -> tf.Tensor:
            chunk = patches[number * _CHUNK : (number + 1) * _CHUNK]
            return self._infer(resize_patches(chunk, self.network.input_size))

        return concatenate(-(-shape[0] // _CHUNK), describe, self.network.output_dim)


def _circles(x: tf.Tensor, y: tf.Tensor, radius: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
    """Frames [N, 6] of circles; angles in radians."""
    cosine, sine = radius * tf.cos(angle), radius * tf.sin(angle)
    return tf.stack([cosine, -sine, x, sine, cosine, y], axis=1)


def _has_area(frames: tf.Tensor) -> tf.Tensor:
    """Which frames [K, 6] map the circle to an ellipse in an image, bool [K]."""
    a, b, _, c, d, _ = tf.unstack(frames, axis=-1)
    sound = tf.reduce_all(tf.abs(frames) <= _FARTHEST, axis=-1)  # false for NaN
    return sound & (a * d != b * c)
