"""The signatures of a SavedModel: a network with its preprocessing in the graph."""

import math
from collections.abc import Callable

import tensorflow as tf

from doap_tf.export.inference_network import inference_network, with_constant_weights
from doap_tf.features.gradients import SAMPLES
from doap_tf.features.graph import GraphDetector, GraphPyramid, cut_patches, dominant_angles
from doap_tf.networks import DescriptorNetwork, KeypointNetwork, pack_bits
from doap_tf.preprocessing import resize_patches

# Patches that run through the network at a time: bounds a server's memory whatever a request
# holds (with a spatial transformer a patch takes 0.7 MB) and costs no time.
_CHUNK = 256
# As in doap_tf.readers.images: a header must not make a server allocate gigabytes.
_SMALL_IMAGE = 2**24
_MOST_PIXELS_A_BYTE = 1000
# Detection in the largest image takes a server about 1 GB.
_MOST_PIXELS = 2**24
_MOST_KEYPOINTS = 2**16
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
                _decode(images[number]),
                tf.gather_nd(frames[number], rows),
                self.network.input_size,
                self.network.magnification,
            )
            return tf.scatter_nd(
                tf.cast(rows, tf.int32),
                self._describe(patches[..., tf.newaxis]),
                [count, dimension],
            )

        descriptors = _concatenate(tf.size(images), describe, dimension)
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
        checks = [
            tf.debugging.assert_equal(
                tf.size(max_keypoints), tf.size(images), "max_keypoints must have one per image."
            ),
            tf.debugging.assert_non_negative(max_keypoints, "max_keypoints must not be negative."),
            tf.debugging.assert_less_equal(
                max_keypoints, _MOST_KEYPOINTS, f"max_keypoints must be up to {_MOST_KEYPOINTS}."
            ),
        ]
        with tf.control_dependencies(checks):
            max_keypoints = tf.identity(max_keypoints)
        dimension = self.network.output_dim
        rows = _concatenate(
            tf.size(images),
            lambda number: self._detect(images[number], max_keypoints[number], number),
            6 + dimension,
        )
        numbers = tf.cast(rows[:, 0], tf.int32)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(numbers), numbers, tf.size(images))
        occupied = tf.where(tf.sequence_mask(counts))
        shape = [tf.size(images), tf.reduce_max(tf.concat([counts, [0]], 0)), 5 + dimension]
        padded = tf.scatter_nd(tf.cast(occupied, tf.int32), rows[:, 1:], shape)
        outputs = {
            "keypoints": padded[..., :4],
            "scores": padded[..., 4],
            "descriptors": padded[..., 5:],
            "counts": counts,
        }
        if self.network.head == "binary":
            packed = pack_bits(tf.reshape(padded[..., 5:], [-1, dimension]))
            outputs["packed"] = tf.reshape(packed, [*shape[:2], dimension // 8])
        return outputs

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
        return {
            method.__name__: tf.function(
                method, input_signature=spec, autograph=False
            ).get_concrete_function()
            for method, spec in specs.items()
        }

    def _detect(self, image: tf.Tensor, max_keypoints: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
        """The features of one image.

        Returns:
            float32 [n, 6 + D]: the image's number, x, y, size, angle, score and the descriptor.
        """
        grey = _decode(image, _MOST_PIXELS)
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
        rows = _concatenate(chunks, describe, 1 + self.network.output_dim)
        numbers = tf.fill(tf.shape(x), tf.cast(number, tf.float32))
        keypoints = tf.stack([numbers, x, y, 2.0 * radius, rows[:, 0], score], axis=1)
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

        return _concatenate(-(-shape[0] // _CHUNK), describe, self.network.output_dim)


def _concatenate(
    count: tf.Tensor, rows_of: Callable[[tf.Tensor], tf.Tensor], dimension: int
) -> tf.Tensor:
    """Concatenates rows_of(0) … rows_of(count − 1), float32 [n, dimension], computed in turn."""
    rows = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, dimension])
    _, rows = tf.while_loop(
        lambda number, _: number < count,
        lambda number, rows: (number + 1, rows.write(number, rows_of(number))),
        (0, rows),
        parallel_iterations=1,
    )
    return tf.ensure_shape(rows.concat(), [None, dimension])


def _circles(x: tf.Tensor, y: tf.Tensor, radius: tf.Tensor, angle: tf.Tensor) -> tf.Tensor:
    """Frames [N, 6] of circles; angles in radians."""
    cosine, sine = radius * tf.cos(angle), radius * tf.sin(angle)
    return tf.stack([cosine, -sine, x, sine, cosine, y], axis=1)


def _has_area(frames: tf.Tensor) -> tf.Tensor:
    """Which frames [K, 6] map the circle to an ellipse in an image, bool [K]."""
    a, b, _, c, d, _ = tf.unstack(frames, axis=-1)
    sound = tf.reduce_all(tf.abs(frames) <= _FARTHEST, axis=-1)  # false for NaN
    return sound & (a * d != b * c)


def _decode(image: tf.Tensor, most_pixels: int | None = None) -> tf.Tensor:
    """Grey values of an encoded image, float32 [H, W], weighted and rounded as OpenCV does."""
    if most_pixels is None:
        most = tf.maximum(_SMALL_IMAGE, _MOST_PIXELS_A_BYTE * tf.strings.length(image))
        message = "an image claims more pixels than it can hold."
    else:
        most = tf.constant(most_pixels)
        message = f"an image has more than {most_pixels} pixels; send a smaller one."
    check = tf.debugging.assert_less_equal(_claimed_pixels(image), tf.cast(most, tf.int64), message)
    with tf.control_dependencies([check]):
        colors = tf.io.decode_image(image, channels=3, expand_animations=False)
    grey = tf.tensordot(tf.cast(colors, tf.float32), [0.299, 0.587, 0.114], axes=1)
    return tf.ensure_shape(tf.round(grey), [None, None])


def _claimed_pixels(image: tf.Tensor) -> tf.Tensor:
    """Width times height in the header of a JPEG or PNG file, int64; others are refused."""
    header = tf.strings.join([tf.strings.substr(image, 0, 24), "\0" * 24])
    is_jpeg, is_png = tf.io.is_jpeg(image), tf.equal(tf.strings.substr(header, 1, 3), "PNG")
    check = tf.debugging.assert_equal(is_jpeg | is_png, True, "an image is neither JPEG nor PNG.")
    with tf.control_dependencies([check]):
        header = tf.identity(header)
    sides = tf.cond(
        is_jpeg,
        lambda: tf.io.extract_jpeg_shape(image)[:2],
        lambda: tf.io.decode_raw(tf.strings.substr(header, 16, 8), tf.int32, False),
    )
    return tf.reduce_prod(tf.cast(sides, tf.int64))
